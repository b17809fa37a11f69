"""Render a study to HTML and write it, unless the page is up to date, by a digest of its sources that it keeps."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from markupsafe import Markup

import cuprof
from cuprof.core.errors import StoreError
from cuprof.core.files import read_regular
from cuprof.core.interrupts import shielded
from cuprof.core.project import bundled
from cuprof.core.text import visible
from cuprof.report.code_section import code_section, describe_kernels
from cuprof.report.counter_section import counter_section
from cuprof.report.experiment import find_experiment
from cuprof.report.figure import Figure, styles_of
from cuprof.report.figures import standard_figures
from cuprof.report.grid import grid_table
from cuprof.report.load import list_sweep_devices
from cuprof.report.series import study_figure
from cuprof.report.study import Study
from cuprof.report.summary import conclude, failure_groups
from cuprof.report.tables import Cell, Table
from cuprof.report.templates import list_folders, make_environment
from cuprof.report.variants import fastest_table, make_overview, steps_table
from cuprof.results.source import KernelSource
from cuprof.results.sweeps import SweepRow, is_search, read_configurations
from cuprof.store import tables as t
from cuprof.store.rows import AT_ONCE
from cuprof.store.store import Store

PART = ".part"
ABANDONED_S = 60.0
"""Writing a page takes far less; an older part was abandoned."""
HEAD_BYTES = 4096
"""The digest is in a page's first lines."""
FIRST_HEADING = 3
"""The level of the largest heading in findings: the page's own go to level 2."""


def write(study: Study, folder: Path, *, name: str = "", folders: Sequence[Path] = (), made_of: str = "") -> Path:
    """Write the study's page to folder/NAME.html, in one piece, and return its path.

    Args:
        made_of: what `digest` returns, for `is_current` to find.

    Raises:
        StoreError: the folder or the file cannot be written.
    """
    path = folder / f"{name or page_name(study.sweep, study.experiment.name)}.html"
    text = render(study, folders=folders, made_of=made_of)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write_whole(path, text)
    except OSError as error:
        raise StoreError(f"report {path} cannot be written: {error.strerror}; set another report.path") from error
    return path


def _write_whole(path: Path, text: str) -> None:
    """Put a file in its place in one piece; what a write that failed or was ended leaves is gone after the next one."""
    for pattern in (f".{glob.escape(path.name)}-*{PART}", "tmp????????.html.part"):  # the latter by cuprof 0.1.0
        for left in path.parent.glob(pattern):
            with contextlib.suppress(OSError):
                if time.time() - left.lstat().st_mtime > ABANDONED_S:
                    left.unlink()
    scratch = path.with_name(f".{path.name}-{secrets.token_hex(4)}{PART}")
    with shielded(), scratch.open("x", encoding="utf-8") as file:  # with the rights that the user's umask leaves
        try:
            file.write(text)
            file.flush()
            scratch.replace(path)
        except BaseException:
            scratch.unlink(missing_ok=True)
            raise


def render(study: Study, *, folders: Sequence[Path] = (), made_of: str = "") -> str:
    """Return the page as HTML, with scripts, styles and data inside.

    Args:
        folders: folders that hold `templates/page.html`; an earlier one wins, the bundled one comes last.
    """
    figures, (overview, problems, chosen) = study_figures(study), make_overview(study) or (None, [], None)
    specs = json.dumps({figure.id: {"data": figure.data, "layout": figure.layout} for figure in figures})
    page: str = (
        make_environment(folders)
        .get_template("page.html")
        .render(
            study=study,
            made_of=made_of,
            conclusions=conclude(study),
            tables=study_tables(study),
            overview=overview,
            problems={"problems": list(map(table_data, problems)), "chosen": chosen},
            figures=figures,
            specs=json.loads(specs, parse_constant=lambda _: None),  # Plotly leaves out what is no number
            counters=counter_section(study) if study.counters.values or study.has_gpu else None,
            code=code_section(study),
            failures=failure_groups(study),
            findings=Markup(to_html(study.findings)),  # the text's own HTML is switched off
            provenance=study.provenance,
            plotly=Markup(read_plotly() if figures else ""),  # the library's own script
        )
    )
    return page


def write_kernels(kernels: Sequence[KernelSource], path: Path) -> None:
    """Write a page of profiled kernels: their source with what each line costs, and its machine code on click.

    Raises:
        StoreError: the file cannot be written.
    """
    template = make_environment().get_template("kernels.html")
    try:
        _write_whole(path, template.render(title=kernels[0].name, sides=describe_kernels(kernels), code=()))
    except OSError as error:
        raise StoreError(f"{path} cannot be written: {error.strerror}; name another file") from error


def to_html(text: str) -> str:
    """Return findings, which are Markdown, as HTML: without HTML of the text's own, images and outside requests."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(text)
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + FIRST_HEADING - 1)}"
    html = str(parser.renderer.render(tokens, parser.options, {}))
    return html.replace("<table>", '<div class="scroll" tabindex="0"><table>').replace("</table>", "</table></div>")


def read_plotly() -> str:
    """Return the script that draws the figures (reports/vendor/README.md)."""
    return (bundled("reports") / "vendor" / "plotly-cartesian.min.js").read_text(encoding="utf-8")


def study_tables(study: Study) -> list[Table]:
    """Return the tables that the study asks for, and the fastest configurations where many were tried."""
    asked = [(steps_table if spec.kind == "steps" else grid_table)(study, spec) for spec in study.experiment.tables]
    return [*asked, *filter(None, [fastest_table(study)])]


def study_figures(study: Study) -> list[Figure]:
    """Return the figures that the study asks for and that there is data for."""
    styles = styles_of(study.frame.sort_values("order", kind="stable")["contender"])
    figures: list[Figure] = []
    for index, spec in enumerate(study.experiment.figures):
        if isinstance(spec, str):
            figures += standard_figures(study, styles)
        elif (figure := study_figure(study, spec, styles, f"study-{index}", study.frame)) is not None:
            figures.append(figure)
    return figures


def table_data(table: Table) -> dict[str, Any]:
    """Return a table as the page's script draws it: lists in a fixed order, which take a third of the room."""

    def cell(given: Cell) -> list[Any]:
        share = "" if given.share is None else f"{given.share * 100:.1f}%"
        facts = [given.text, given.note, given.kind.replace("number", ""), share, given.span if given.span > 1 else ""]
        while not facts[-1]:
            facts.pop()
        return facts

    rows = [[row.heading, row.note, row.mark, [cell(each) for each in row.cells]] for row in table.rows]
    columns = [[column.heading, column.unit] for column in table.columns]
    data = {"title": table.title, "corner": table.corner, "columns": columns, "rows": rows, "notes": table.notes}
    return {name: _shown(value) for name, value in data.items()}


def _shown(value: Any) -> Any:
    """Return data whose texts show what they are, as the templates' texts do."""
    if isinstance(value, (list, tuple)):
        return [_shown(each) for each in value]
    return visible(value) if isinstance(value, str) else value


def page_name(sweep: SweepRow, experiment: str = "", sweep_id: int | None = None) -> str:
    """Return the page's file name without ending: the experiment's, with nothing in it that a file system dislikes.

    Args:
        experiment: the name that was asked for, where the sweep has no experiment.
        sweep_id: the sweep that was asked for by number, so that its page does not take the newest one's place.
    """
    name = sweep.experiment or experiment or sweep.name or sweep.family
    name = re.sub(r"[^\w.-]+", "-", name).strip("-.")[:80] or f"sweep-{sweep.id}"
    return name if sweep_id is None else f"{name}-sweep-{sweep_id}"


def digest(
    store: Store, sweep: SweepRow, name: str = "", *, experiments: Sequence[Path] = (), reports: Sequence[Path] = ()
) -> str:
    """Return a digest of what the page of a sweep is made of: trials' runs and counters, the study, templates, program.

    A sweep that found everything stored has the digest of the one that measured it, whose page stays.

    Args:
        name: the experiment's or family's, as it was asked for.
        experiments, reports: the project's folders of experiments and of page templates.
    """
    found = hashlib.sha256(_program().encode())
    with store.snapshot() as connection:
        configuration = read_configurations(connection, [sweep.id])[sweep.id]
        whole = sweep.is_finished and not is_search(configuration)
        about = (sweep.experiment, sweep.family, sweep.name, sweep.baseline, sweep.state, store.place)
        for part in (about, configuration, list_sweep_devices(connection, sweep.id), None if whole else sweep):
            found.update(repr(part).encode("utf-8", "surrogatepass"))
        columns = [t.sweep_trial.c[each] for each in ("trial_id", "run_id", "device_id", "unavailable_reason")]
        members = sa.select(*columns).where(t.sweep_trial.c.sweep_id == sweep.id).order_by(t.sweep_trial.c.ordinal)
        profiles = sa.select(t.profile.c.id).join(t.sweep_trial, t.sweep_trial.c.trial_id == t.profile.c.trial_id)
        for query in (members, profiles.where(t.sweep_trial.c.sweep_id == sweep.id).order_by(t.profile.c.id)):
            for rows in connection.execute(query).partitions(AT_ONCE):
                found.update(repr([tuple(row) for row in rows]).encode("utf-8", "surrogatepass"))
    folder = find_experiment(name or sweep.experiment, experiments).folder
    found.update(_contents([*([folder] if folder else []), *list_folders(reports), bundled("reports") / "vendor"]))
    return found.hexdigest()


def is_current(page: Path, made_of: str) -> bool:
    """Return whether a page is there and made of what the digest stands for."""
    try:
        with page.open("rb") as file:
            return f'content="{made_of}"'.encode() in file.read(HEAD_BYTES)
    except OSError:
        return False


@cache
def _program() -> str:
    """Return a digest of this program: a checkout changes without its version."""
    root = Path(cuprof.__file__).parent
    return f"{cuprof.__version__} {hashlib.sha256(_contents([root], '*.py')).hexdigest()}"


def _contents(folders: Iterable[Path], pattern: str = "*") -> bytes:
    files = [(one, folder) for folder in folders for one in sorted(folder.rglob(pattern)) if one.is_file()]
    return b"\0".join(part for one, top in files for part in (os.fsencode(one.relative_to(top)), read_regular(one, 0)))
