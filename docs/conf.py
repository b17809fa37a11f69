"""Sphinx: the site is made from the Markdown files of the whole repository, so that links work here and on GitHub."""

from __future__ import annotations

import lzma
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
GALLERY = ROOT / "docs" / "gallery"
STUDIES = ("reduction", "cuconv", "convlab", "filter3x3", "cnn_layer")
sys.path.insert(0, str(ROOT))

from cuprof import __version__ as release  # noqa: E402

project = "cuprof"
author = project_copyright = "The cuprof authors"
version = release
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
root_doc = "docs/index"
source_suffix = {".md": "markdown"}
include_patterns = [
    "docs/*.md", "docs/*/*.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md",
    "benchmarks/README.md", "db/DICTIONARY.md", "experiments/*.md", "experiments/*/*.md", "kernels/README.md",
]  # fmt: skip
# Sphinx looks through every folder that is not named here, twice.
exclude_patterns = ["docs/_build", ".git", ".venv", "cuprof", "tests", "reports", "db/artifacts", "db/jobs"]
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
default_role = "code"  # docstrings write code in single backticks
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
html_theme = "furo"
html_title = f"cuprof {release}"
html_static_path = html_css_files = ["site.css"]
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"


def write_gallery(app: Any, error: Exception | None) -> None:
    """Write the page of each bundled study, from the recorded database, into the site."""
    from cuprof.cli.main import main

    if error or app.builder.name != "html":
        return
    folder = Path(app.outdir) / "docs" / "gallery"
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as scratch:
        database = Path(scratch) / "studies.sqlite"
        with lzma.open(GALLERY / "studies.sqlite.xz") as packed, database.open("wb") as file:
            shutil.copyfileobj(packed, file)
        for study in STUDIES:
            main(["report", f"experiment={study}", f"store.url=sqlite:///{database}", f"report.path={folder}"])


def setup(app: Any) -> None:
    """Register what Sphinx calls at the end of a build."""
    connect: Callable[[str, Callable[..., None]], Any] = app.connect
    connect("build-finished", write_gallery)
