from __future__ import annotations

import errno
import hashlib
import os
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from page_data import comparison_data
from study_data import CPU, GPU, NO_CUDA, STEPS, Made, add_counters, fill, open_store

from cuprof.cli.compare import as_data
from cuprof.comparison.compare import compare
from cuprof.comparison.sides import load_sides
from cuprof.core.errors import StoreError, UsageError
from cuprof.core.project import bundled
from cuprof.core.records import State
from cuprof.report.load import load_study
from cuprof.report.page import digest, is_current, page_name, read_plotly, render, to_html, write
from cuprof.report.study import Study

NASTY = "<script>alert('x')</script>\"'&{{ 7*7 }}%{y}</textarea>日本\u202e"


class Page(HTMLParser):
    """Collect what a page would load, its scripts, its ids and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.ids += [given["id"]] if given.get("id") else []
        self.loads += [given[name] or "" for name in ("src", "href") if name in given]

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["script"]:
            self.text.append(data)

    @property
    def words(self) -> str:
        return " ".join("".join(self.text).split())


def many() -> list[Made]:
    """Return 20 variants at 60 problems, some with tunables."""
    return [
        Made(f"variant_{number}", 5.0 + number + size, {"n": 1024 * size, "dtype": "float32"}, tune)
        for size in range(1, 61)
        for number in range(20)
        for tune in ([{"block": block} for block in (64, 128, 256)] if number < 3 else [{}])
    ]


def without_plotly(html: str) -> str:
    return html.replace(read_plotly(), "")


@pytest.fixture
def study(make_study, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Return a study whose page takes no time to make."""
    monkeypatch.setattr("cuprof.report.page.render", lambda *_, **__: "<html></html>")
    return make_study([Made("a")])


def test_a_page_has_the_rights_that_the_umask_leaves(study: Study, tmp_path: Path) -> None:
    for umask, mode in ((0o022, 0o644), (0o077, 0o600)):
        before = os.umask(umask)
        try:
            path = write(study, tmp_path / f"{mode}")
        finally:
            os.umask(before)
        assert path.stat().st_mode & 0o777 == mode


@pytest.fixture(scope="module")
def pages(reductions: dict[str, Study]) -> dict[str, str]:
    """Return the pages of the reduction study, with a GPU and without."""
    return {name: render(study) for name, study in reductions.items()}


def test_two_renders_are_the_same_bytes(reductions: dict[str, Study], pages: dict[str, str]) -> None:
    assert render(reductions["gpu"]) == pages["gpu"]
    assert len(pages["gpu"].encode()) <= 2_000_000


def test_nothing_in_the_page_is_loaded_from_anywhere(pages: dict[str, str]) -> None:
    page = Page(without_plotly(pages["gpu"]))
    assert all(load.startswith(("#", "data:")) for load in page.loads)
    assert len(page.ids) == len(set(page.ids))
    assert page.tags.count("h1") == 1


def test_the_page_says_what_was_measured_published_and_skipped(pages: dict[str, str]) -> None:
    words = Page(without_plotly(pages["cpu"])).words
    for text in (
        "Sum reduction, step by step",
        "Published: Tesla T4, CPU (another machine)",
        "no CUDA device was found; install the NVIDIA driver, then: pip install 'cuprof[cuda13]'",
        "1 861",
        "Test CPU 5",
        "0123abc",
    ):
        assert text in words, text


def test_a_page_without_a_gpu_has_no_counters_and_no_findings_about_gpus(pages: dict[str, str]) -> None:
    gpu, cpu = (Page(without_plotly(pages[name])) for name in ("gpu", "cpu"))
    for identity in ("counters", "findings"):
        assert identity in gpu.ids
        assert identity not in cpu.ids
    assert "ncu-collect" in gpu.words
    assert "ncu-collect" not in cpu.words


def test_findings_of_ones_own_are_shown_wherever_they_were_made(make_study) -> None:
    cpu = [Made("a", device=CPU, kind="cpu"), Made("b", device=CPU, kind="cpu")]
    study = make_study(cpu, "title: Mine", {"findings.md": "Rows are faster than columns."})
    assert "Rows are faster than columns." in Page(without_plotly(render(study))).words


def test_a_page_of_many_trials_is_at_most_two_megabytes(make_study) -> None:
    html = render(make_study(many()))
    assert len(html.encode()) <= 2_000_000
    check_words(Page(without_plotly(html)))


def test_the_script_of_the_figures_is_the_one_that_its_readme_names() -> None:
    folder = bundled("reports") / "vendor"
    script, readme = folder / "plotly-cartesian.min.js", (folder / "README.md").read_text(encoding="utf-8")
    assert hashlib.sha256(script.read_bytes()).hexdigest() in readme
    assert f"version {re.findall(r'v([0-9.]+)', read_plotly()[:100])[0]}," in readme


def test_a_command_is_given_only_where_it_would_help(make_study) -> None:
    command = "ncu-collect experiment=invented"
    opencl = replace(GPU, backend="opencl")
    without = Page(without_plotly(render(make_study([Made("a"), Made("b")], name="1")))).words
    refused = Page(without_plotly(render(make_study([Made("c", device=opencl)], name="2")))).words
    assert command in without
    assert command not in refused
    assert "it profiles CUDA kernels only" in refused


def test_hostile_text_stays_text(make_study) -> None:
    trials = [
        Made(NASTY, 10.0),
        Made("x" * 300, 20.0, {"n": 2**21}, {NASTY[:20]: NASTY}),
        Made("broken", state=State.COMPILE_ERROR, message=NASTY, log=NASTY * 50),
        Made("skipped", state=State.SKIPPED, message=NASTY, device=None),
    ]
    html = without_plotly(render(make_study(trials, software={"tool": NASTY}, git={"commit": NASTY}, name=NASTY)))
    assert "<script>alert" not in html
    assert "</textarea>" not in html
    assert "{{ 7*7 }}" in Page(html).words
    assert html.count("<script") == 5  # two of data, Plotly, the page's own two


@pytest.mark.parametrize(
    "trials",
    [
        [Made("only")],
        [Made("a", state=State.CRASHED, message="segmentation fault"), Made("b", state=State.TIMED_OUT)],
        [Made("a", state=State.PLANNED, device=None, unavailable=NO_CUDA)],
        [Made("a", useful_bytes=0), Made("b", samples=1, spread=0.0)],
        [Made("a", problem={"layout": "NCHW"}), Made("b", problem={"layout": "NHWC"}, device=CPU, kind="cpu")],
    ],
    ids=["single", "all-failed", "all-skipped", "degenerate", "no-numeric-axis"],
)
def test_any_sweep_makes_a_page(make_study, trials) -> None:
    check_words(Page(without_plotly(render(make_study(trials)))))


def check_words(page: Page) -> None:
    """Check that a page has its first and last section and no missing number."""
    assert "Summary" in page.words
    assert "Provenance" in page.words
    assert "nan" not in re.sub(r"\bnan\w", "", page.words.lower()).split()


def test_no_environment_and_no_password_reach_the_page(make_study, monkeypatch) -> None:
    monkeypatch.setenv("SOME_SECRET", "tell-nobody")
    study = make_study(
        [Made("a"), Made("b", 5.0)],
        command_line="python -m cuprof sweep store.url=postgresql://me:hunter2@host/db",
        configuration={"store": {"url": "postgresql+psycopg://me:hunter2@host/db"}},
        git={"commit": "abc", "remote": "https://me:hunter2@host/x"},
    )
    html = render(study)
    assert "hunter2" not in html
    assert "postgresql://me:***@host/db" in html
    assert "tell-nobody" not in html
    assert all(value not in html for name, value in os.environ.items() if name in ("PATH", "HOME") and len(value) > 12)


def test_findings_are_markdown_without_its_dangers() -> None:
    html = to_html("# Title\n\n<script>x</script> ![a](http://h/i.png) [bad](javascript:x)\n\n| a |\n|---|\n| 1 |\n")
    assert "<h3>Title</h3>" in html
    assert "<script>" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert '<div class="scroll" tabindex="0"><table>' in html


def test_the_page_is_written_whole_and_named_after_the_experiment(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        sweep = fill(store, [Made("a"), Made("b", 5.0)], experiment="my ex/../periment")
        study = load_study(store, "my ex/../periment")
    path = write(study, tmp_path / "out")
    assert path == tmp_path / "out" / "my-ex-..-periment.html"
    assert path.read_text(encoding="utf-8").rstrip().endswith("</html>")
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert page_name(study.sweep, sweep_id=sweep) == "my-ex-..-periment-sweep-1"


def test_a_page_that_fails_leaves_nothing_and_takes_old_parts_away(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    left = folder / "tmpabcd1234.html.part"
    left.touch()
    os.utime(left, (0, 0))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full)
        for _ in range(2):
            with pytest.raises(StoreError, match="No space left"):
                write(study, folder)
    assert list(folder.iterdir()) == []
    assert [write(study, folder)] == list(folder.iterdir())


def test_a_folder_that_cannot_be_made_is_one_line(study: Study, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"cannot be written: .*; set another report\.path"):
        write(study, tmp_path / "file")


def test_the_numbers_of_a_pair_are_those_of_compare_to_the_last_digit(reductions: dict[str, Study]) -> None:
    study = reductions["gpu"]
    url = f"sqlite:///{study.database}"
    shown = {row["new"]: row for row in comparison_data(study)}
    names = ("verdict", "measure", "ratio", "low", "high", "error_rate")
    assert {trial.variant for trial in study.best if trial.identity in shown} >= {*STEPS[1:], "vector4", "cupy_sum"}
    for trial in study.best:
        if trial.identity in shown:
            base, new = (f"invented/{name}" for name in (study.baseline, trial.variant))
            comparison = compare(*load_sides(base, new, url, sweep=study.sweep.id))
            (told,) = (row for row in as_data(comparison)["rows"] if row["new"]["identity"] == trial.identity)
            assert {name: told[name] for name in names} == {name: shown[trial.identity][name] for name in names}
            assert study.speedup(trial) == 1 / told["ratio"]


def test_a_users_own_template_comes_first(make_study, tmp_path: Path) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "templates" / "page.html").write_text("mine: {{ conclusions.headline }}", encoding="utf-8")
    assert render(make_study([Made("a")]), folders=[tmp_path]).startswith("mine: a is the only variant")


def test_characters_that_turn_the_text_around_are_shown_as_escapes_in_the_tables_of_the_script_too(make_study) -> None:
    trials = [Made(name, time, {"n": n}) for name, time in (("evil\u202etxt.exe", 10.0), ("b", 5.0)) for n in (1, 2)]
    html = without_plotly(render(make_study(trials)))
    assert "\u202e" not in html
    assert "evil\\u202etxt." in html
    assert "evil\\\\u202etxt." in re.findall(r'id="problem-data">(.*?)</script>', html)[0]


def test_very_long_names_are_whole_in_the_table_and_short_in_sentences(make_study) -> None:
    name = "v" * 300
    page = Page(without_plotly(render(make_study([Made(name, 5.0), Made("b")]))))
    assert name in page.words
    assert f"{'v' * 40}…{'v' * 19} is the fastest right variant" in page.words


def test_a_page_is_made_anew_only_when_something_that_it_shows_has_changed(tmp_path: Path) -> None:
    trials = [Made("a", 10.0), Made("b", 5.0)]
    with open_store(tmp_path) as store:
        sweep = fill(store, trials)
        study, folders = load_study(store, "invented"), [tmp_path / "experiments"]
        made_of = digest(store, study.sweep, experiments=folders)
        page = write(study, tmp_path, made_of=made_of)
        assert is_current(page, made_of)
        assert digest(store, study.sweep, experiments=folders) == made_of
        fill(store, [replace(each, state=State.PLANNED) for each in trials], calibrate=False)
        again = load_study(store, "invented").sweep
        assert again.id != sweep
        assert digest(store, again, experiments=folders) == made_of, "it found everything stored"
        add_counters(store, sweep, "a", {"k": {"inst": (1.0, "inst")}})
        counted = digest(store, again, experiments=folders)
        assert not is_current(page, counted)
        (tmp_path / "experiments" / "invented").mkdir(parents=True)
        (tmp_path / "experiments" / "invented" / "findings.md").write_text("Rows are faster.")
        assert digest(store, again, experiments=folders) != counted
        fill(store, [*trials, Made("c", 2.0)], name="third")
        assert digest(store, load_study(store, "invented").sweep) not in (made_of, counted)
        (tmp_path / "experiments" / "invented" / "bad.csv").symlink_to("/proc/self/mem")
        with pytest.raises(UsageError, match=r"bad\.csv cannot be read: Input/output error"):
            digest(store, again, experiments=folders)
    assert not is_current(tmp_path / "missing.html", made_of)
