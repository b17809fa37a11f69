"""What the documents name exists; what they show as code works."""

from __future__ import annotations

import re
import tomllib

import pytest

from cuprof import __version__
from cuprof.cli.main import COMMANDS
from cuprof.families import Family
from tests.docs.claims import ROOT, Document, problems

PATHS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "benchmarks" / "README.md",
    ROOT / "kernels" / "README.md",
    ROOT / "experiments" / "README.md",
    ROOT / "cuprof" / "cli" / "template" / "README.md",
]


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_all_that_a_document_names_exists(path: object) -> None:
    assert problems(Document(path, path.read_text(encoding="utf-8"))) == []  # type: ignore[attr-defined, arg-type]


GOOD = """\
# A page

See [comparing](comparing.md#what-a-verdict-means) and [below](#a-page).

    cuprof sweep experiment=reduction problem.n=2**20 variants=sequential   # fine
    cuprof query "SELECT variant FROM timings"

`cuprof compare latest~1 latest --json`, `measure.flush=dirty`, `measure.target`, `--sample-more`, `db/DICTIONARY.md`;
the views `timings` and `best`; `ncu=memory`; `benchmarks.agreement`; `make test`; `stopped_by`.
"""


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("", "", ""),
        ("comparing.md#", "comparring.md#", "no such file"),
        ("#what-a-verdict-means", "#what-a-verdict-is", "no such heading"),
        ("cuprof sweep", "cuprof swep", "no command swep"),
        ("experiment=reduction", "experiment=redaction", "unknown experiment"),
        ("problem.n", "problem.m", "unknown problem axis"),
        ("variants=sequential", "variants=sequentiall", "unknown variant"),
        ("problem.n=2**20", "measure.targett=1", "measure.targett"),
        ("FROM timings", "FROM timing_s", "timing_s"),
        ("--json`", "--jsn`", "--jsn"),
        ("measure.flush=dirty", "measure.flsh=dirty", "no setting measure.flsh"),
        ("`measure.target`", "`measure.tarmac`", "no setting measure.tarmac"),
        ("`--sample-more`", "`--sample-most`", "no command has the option --sample-most"),
        ("db/DICTIONARY.md", "db/DICTIONNARY.md", "no such file"),
        ("`best`", "`bests`", "no view or query bests"),
        ("ncu=memory", "ncu=memoir", "ncu has no choice memoir"),
        ("benchmarks.agreement", "benchmarks.agrement", "no module benchmarks.agrement"),
        ("make test", "make tests", "no target tests"),
        ("stopped_by", "stoped_by", "the word stoped_by is nowhere in the code"),
    ],
)
def test_a_planted_error_is_found(right: str, wrong: str, told: str) -> None:
    assert right in GOOD
    text = GOOD.replace(right, wrong, 1) if right else GOOD
    found = problems(Document(ROOT / "docs" / "made_up.md", text))
    assert len(found) == bool(told), found
    assert told in "".join(found)


def test_the_design_shows_layers_packages_and_modules_as_they_are() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (layers,) = (contract["layers"] for contract in contracts if contract["id"] == "layers")
    assert "\n\n    " + "\n    ".join(layers[1:]) + "\n\n" in text
    listed = re.findall(r"^\| `cuprof/([\w.]+)` \|", text, re.MULTILINE)
    there = [path for path in (ROOT / "cuprof").iterdir() if not path.name.startswith("_")]
    assert sorted(listed) == sorted(path.name for path in there if path.is_dir() or path.suffix == ".py")


def test_the_design_names_functions_where_they_are() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    named = re.findall(r"`(cuprof/[\w/]+\.py)` `([\w.]+)`", text)
    assert len(named) >= 18
    absent = [
        (file, name)
        for file, name in named
        if not re.search(
            rf"^ *def {name.rpartition('.')[2]}\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert absent == []


def test_the_command_lines_page_lists_every_command() -> None:
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([a-z-]+)` \|", text, re.MULTILINE)) == set(COMMANDS)


def test_the_example_family_can_be_made() -> None:
    text = (ROOT / "kernels" / "README.md").read_text(encoding="utf-8")
    block = next(each for each in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "import numpy" in each)
    names: dict[str, object] = {}
    exec(compile(block, "kernels/README.md", "exec"), names)
    family = names["family"]
    assert isinstance(family, Family)
    assert list(family.variants) == ["numpy", "plain", "plain_cl", "cupy"]


def test_the_citation_names_the_version() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {__version__}\n" in citation


def test_the_documents_that_the_code_refers_to_exist() -> None:
    named = {
        (path.relative_to(ROOT), name)
        for folder in ("cuprof", "benchmarks", "kernels", "experiments")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in (".py", ".md", ".yaml")
        for name in re.findall(r"\bdocs/[\w/]+\.md", path.read_text(encoding="utf-8"))
    }
    assert named
    assert [each for each in sorted(named) if not (ROOT / each[1]).exists()] == []
