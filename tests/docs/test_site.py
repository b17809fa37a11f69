"""The site builds without a warning, and its pages are what they say they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.claims import ROOT

DOCS = ROOT / "docs"
HOW_TO = re.search(
    r":caption: How to\n:hidden:\n\n(.*?)```", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL
)
"""The how-to pages of the table of contents."""

NO_OUTPUT = ("glossary", "architecture", "index")
"""Pages that need no annotated output: lists, and the one for people who change the code."""


@pytest.mark.timeout(600)
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("sphinx")
    pytest.importorskip("furo")
    pytest.importorskip("myst_parser")
    # The builder `dummy` reads everything and resolves every link; it writes no page.
    build = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-b", "dummy", "-c", "docs", ".", tmp_path]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", HOW_TO[1].split())  # type: ignore[index]
def test_a_how_to_page_is_short(name: str) -> None:
    assert len((DOCS / f"{name}.md").read_text(encoding="utf-8").splitlines()) <= 150


@pytest.mark.parametrize("path", sorted(DOCS.rglob("*.md")), ids=lambda path: str(path.relative_to(DOCS)))
def test_a_page_opens_with_a_command_and_its_annotated_output(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").splitlines()[:25]
    starts = ("    cuprof ", "    python -m ", "result = cuprof.")
    assert path.stem == "glossary" or any(line.startswith(starts) for line in lines)
    assert path.stem in NO_OUTPUT or any("←" in line for line in lines)


def test_the_glossary_has_at_most_25_words_in_order() -> None:
    words = re.findall(r"^\| ([a-z][\w ,-]*?) \|", (DOCS / "glossary.md").read_text(encoding="utf-8"), re.MULTILINE)[1:]
    assert 10 <= len(words) <= 25
    assert words == sorted(words)


def test_the_gallery_has_the_page_of_every_study() -> None:
    text = (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")
    named = re.findall(r'href="(\w+)\.html"', text)
    settings: dict[str, object] = {}
    exec((DOCS / "conf.py").read_text(encoding="utf-8"), {"__file__": str(DOCS / "conf.py")}, settings)
    assert named == list(settings["STUDIES"])  # type: ignore[call-overload]
    assert all((ROOT / "experiments" / name / "study.yaml").exists() for name in named)
