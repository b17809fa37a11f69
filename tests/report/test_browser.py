"""The page in a real browser: nothing is requested, nothing complains, nothing overflows a phone."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from source_study import fill_source_study
from study_data import Made, add_counters, fill, open_store, reduction

from cuprof.core.project import bundled
from cuprof.report.load import load_study
from cuprof.report.page import write

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)

pytestmark = pytest.mark.skipif(not (BROWSER and DRIVER), reason="no Chromium with chromedriver on this machine")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(flag)
    options.timeouts = {"pageLoad": 100_000, "script": 100_000}
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    made = {}
    long = [Made("a_very_long_variant_name_" * 8, 10.0), Made("b" * 200, 20.0), Made("<b>bold</b>", 30.0, {"n": 2**22})]
    for name, trials in (("gpu", reduction()), ("cpu", reduction(gpu=False)), ("long", long)):
        folder = tmp_path_factory.mktemp(name)
        with open_store(folder) as store:
            sweep = fill(
                store, trials, experiment="reduction" if name != "long" else "invented", baseline=trials[0].variant
            )
            if name == "gpu":
                metric = "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.ratio"
                for variant, value in (("interleaved_divergent", 25.87), ("last_warp", 31.34)):
                    add_counters(store, sweep, variant, {"kernel": {metric: (value, "byte/sector")}})
            study = load_study(store, sweep_id=sweep, folders=[bundled("experiments")])
        made[name] = write(study, folder)
    folder = tmp_path_factory.mktemp("code")
    with open_store(folder) as store:
        sweep = fill_source_study(store)
        made["code"] = write(load_study(store, sweep_id=sweep, folders=[bundled("experiments")]), folder)
    return made


def open_page(browser: Any, page: Path, width: int) -> None:
    """Open a page, and check what holds for each at any width: it is quiet, and it fits."""
    from selenium.webdriver.support.ui import WebDriverWait

    screen = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    for kind in ("browser", "performance"):
        browser.get_log(kind)  # what earlier pages left
    browser.get(page.as_uri())
    drawn = "return document.querySelectorAll('.plot .main-svg').length >= document.querySelectorAll('.plot').length"
    WebDriverWait(browser, 100).until(lambda _: browser.execute_script(drawn))  # Plotly draws when it likes
    assert browser.get_log("browser") == []
    requests = [
        message["params"]["request"]["url"]
        for message in (json.loads(entry["message"])["message"] for entry in browser.get_log("performance"))
        if message["method"] == "Network.requestWillBeSent"
    ]
    assert [url for url in requests if not url.startswith("data:")] == [page.as_uri()]
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    outside = (
        "return [...document.querySelectorAll('.plot svg.main-svg')]"
        ".filter(e => e.getBoundingClientRect().right > innerWidth + 1).length"
    )
    assert browser.execute_script(outside) == 0


def test_the_page_is_quiet_and_fits_a_phone(browser: Any, pages: dict[str, Path]) -> None:
    """The other tests open these pages on a wide screen alone, and each other page at both widths."""
    for name in ("gpu", "cpu"):
        open_page(browser, pages[name], 390)


def test_a_legend_on_a_phone_stands_below_the_title_of_the_axis(browser: Any, pages: dict[str, Path]) -> None:
    open_page(browser, pages["long"], 390)
    gaps = (
        "let at = (e, name) => e.querySelector(name).getBoundingClientRect();"
        "return [...document.querySelectorAll('.plot')].filter(e => e.querySelector('.legend'))"
        ".map(e => at(e, '.legend').top - at(e, '.xtitle').bottom)"
    )
    found = browser.execute_script(gaps)
    assert found
    assert min(found) >= 0


def test_what_the_reader_sees(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By

    open_page(browser, pages["gpu"], 1200)
    text = browser.find_element(By.TAG_NAME, "body").text
    assert "single_pass is the fastest right variant" in text
    assert "Published: Tesla T4, CPU (another machine)" in text
    assert "Global loads are better coalesced" in text
    shown = browser.find_element(By.ID, "figure-scaling").text
    assert "roof: Test GPU 9000" in shown
    assert "interleaved_divergent" in shown


def column(browser: Any, selector: str) -> list[str]:
    """Return the texts of the cells that are shown."""
    script = "return [...document.querySelectorAll(arguments[0])].filter(e => e.offsetParent).map(e => e.textContent)"
    return browser.execute_script(script, selector)


def click(browser: Any, selector: str, place: int = 0) -> None:
    browser.execute_script("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, place)


def fill_in(browser: Any, place: int, text: str) -> None:
    """Type into the filter of a column of the chosen problem's table."""
    script = "let e = document.querySelectorAll('#problem tr.filters input')[arguments[0]]; e.value = arguments[1];"
    browser.execute_script(f"{script} e.dispatchEvent(new Event('input'))", place, text)


def test_a_click_on_a_problem_shows_its_table(browser: Any, pages: dict[str, Path]) -> None:
    open_page(browser, pages["gpu"], 1200)
    assert column(browser, "#problem caption span") == []
    assert "that of n=2^24, dtype=float32 stands above" in browser.find_element("id", "problem").text
    click(browser, "#table-problems button.choose")
    assert column(browser, "#problem caption span") == ["Variants at n=2^20, dtype=float32"]
    assert column(browser, "#table-problems tr.chosen button.choose") == ["n=2^20, dtype=float32"]
    assert column(browser, "#problem tbody td:nth-child(2) .value")[:2] == ["61.72", "57.53"]
    click(browser, "#table-problems tbody td", 20)  # anywhere in the row
    assert column(browser, "#problem caption span") == ["Variants at n=2^22, dtype=float32"]


def test_tables_are_sorted_by_numbers_and_filtered(browser: Any, pages: dict[str, Path]) -> None:
    open_page(browser, pages["gpu"], 1200)
    click(browser, "#table-problems button.choose", 2)
    cells = "#problem tbody td:nth-child(2) .value"
    before = column(browser, cells)
    numbers = []
    for wanted in ("ascending", "descending", None):
        click(browser, "#problem button.sort", 1)
        script = "return document.querySelectorAll('#problem thead th')[1].getAttribute('aria-sort')"
        assert browser.execute_script(script) == wanted
        numbers.append([float(text.replace("\u202f", "")) for text in column(browser, cells)])
    assert numbers[0] == sorted(numbers[0]) == numbers[1][::-1]
    assert column(browser, cells) == before
    click(browser, "#problem button.toggle")
    fill_in(browser, 1, "<100")
    assert column(browser, "#problem tbody .name") == ["vector4", "single_pass", "cupy_sum"]
    fill_in(browser, 0, "PASS")
    assert column(browser, "#problem tbody .name") == ["single_pass"]
    fill_in(browser, 1, "90..100")
    assert column(browser, "#problem tbody .name") == []
    click(browser, "#problem button.toggle")
    assert column(browser, cells) == before


def test_what_has_no_number_stays_last(browser: Any, pages: dict[str, Path]) -> None:
    open_page(browser, pages["cpu"], 1200)
    click(browser, "#table-problems button.choose", 2)
    for _ in range(2):
        click(browser, "#problem button.sort", 1)
        names = column(browser, "#problem tbody .name")
        assert set(names[:3]) == {"cpu_serial", "cpu_numpy", "cpu_parallel"}


def test_markup_in_a_name_is_shown_not_obeyed(browser: Any, pages: dict[str, Path]) -> None:
    from selenium.webdriver.common.by import By

    open_page(browser, pages["long"], 1200)
    assert (
        "<b>bold</b>" in browser.find_element(By.ID, "figure-scaling").text + browser.find_element(By.ID, "tables").text
    )
    assert browser.find_elements(By.CSS_SELECTOR, "main b") == []


def test_it_prints_on_a_few_pages(browser: Any, pages: dict[str, Path]) -> None:
    import base64

    open_page(browser, pages["cpu"], 1200)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"printBackground": True, "preferCSSPageSize": True})
    document = base64.b64decode(printed["data"])
    assert document.startswith(b"%PDF")
    assert 2 <= document.count(b"/Type /Page\n") <= 10


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1200, "dark")])
def test_a_click_on_a_line_opens_its_machine_code(
    browser: Any, pages: dict[str, Path], width: int, scheme: str
) -> None:
    feature = {"name": "prefers-color-scheme", "value": scheme}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
    open_page(browser, pages["code"], width)
    hot = "[...document.querySelectorAll('#code table.code tr')].find(e => e.textContent.includes('in[i] : T(0)'))"
    assert column(browser, "#code table.code details[open] pre") == []
    browser.execute_script(f"let e = {hot}; e.scrollIntoView(); e.querySelector('summary').click()")
    (listing,) = column(browser, "#code table.code details[open] pre")
    assert "LDG.E.CONSTANT" in listing
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    colors = f"let e = getComputedStyle({hot}.querySelector('pre')), b = getComputedStyle(document.body);"
    written, behind = browser.execute_script(f"{colors} return [e.color, b.backgroundColor]")
    lightness = [sum(map(int, re.findall(r"\d+", color)[:3])) for color in (written, behind)]
    assert abs(lightness[0] - lightness[1]) > 300, (written, behind)
    assert (lightness[1] < 384) == (scheme == "dark")
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
