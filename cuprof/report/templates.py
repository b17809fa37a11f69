"""The templates of pages and of what they say: HTML, and texts with a sentence a paragraph (`reports/templates`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from cuprof.core.project import bundled
from cuprof.core.text import count, level_text, list_first, visible
from cuprof.report import units


def list_folders(folders: Sequence[Path]) -> list[Path]:
    """Return where templates are looked for: in the users' folders, then among the bundled ones."""
    return [folder / "templates" for folder in (*folders, bundled("reports"))]


def make_environment(folders: Sequence[Path] = (), finalize: Callable[[Any], Any] | None = None) -> Environment:
    """Return the environment of the templates, by default of those of HTML.

    Args:
        folders: folders that hold `templates`; an earlier one wins, the bundled one comes last.
        finalize: makes of each value what a text has of it; values in HTML are escaped.
    """
    environment = Environment(
        loader=FileSystemLoader(list_folders(folders)),
        finalize=finalize or (lambda value: visible(value) if type(value) is str else value),
        autoescape=finalize is None,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.policies["json.dumps_kwargs"] = {"sort_keys": True, "allow_nan": False, "ensure_ascii": False}
    environment.filters |= {
        "ratio": units.format_ratio,
        "short": units.shorten,
        "names": units.list_names,
        "first_of": list_first,
        "level": level_text,
        "counter": units.format_counter,
        "time": partial(units.format_value, "time"),
        "bandwidth": partial(units.format_value, "bandwidth"),
        "rate": partial(units.format_value, "rate"),
        "age": units.describe_age,
        "count": count,
        "moment": units.moment,
        "of_verdict": lambda pairs, *verdicts: [pair for pair in pairs if pair.verdict in verdicts],
        "breakable": breakable,
        "coded": coded,
        "label": units.value_label,
    }
    return environment


def say(template: str, macro: str, *facts: Any) -> list[str]:
    """Return the paragraphs that a macro of a text template writes, each on one line."""
    text = getattr(_words(template), macro)(*facts)
    paragraphs = re.split(r"\n[ \n]*\n", text)  # no other white space: texts hold spaces that do not break
    return [line for line in (re.sub(r"[ \n]+", " ", each).strip(" \n") for each in paragraphs) if line]


def say_once(template: str, macro: str, *facts: Any) -> str:
    """Return the one paragraph that a macro writes, or the empty text."""
    return " ".join(say(template, macro, *facts))


def render_text(template: str, **facts: Any) -> str:
    """Return a text template with its facts filled in."""
    return make_environment(finalize=str).get_template(template).render(**facts) + "\n"


def breakable(text: str) -> Markup:
    """Return text that may be broken after underscores, dots, slashes and @, where names of code have their joints."""
    return Markup(re.sub(r"([_./@]+)", r"\1<wbr>", str(escape(visible(text)))))  # escaped first


def coded(text: str) -> Markup:
    """Return text that may be broken as `breakable` says, with what stands between backticks set as code."""
    return Markup(re.sub(r"`([^`]*)`", r"<code>\1</code>", str(breakable(text))))  # escaped by `breakable`


@cache
def _words(template: str) -> Any:
    def on_one_line(value: Any) -> Any:
        return value.strip("\n").replace("\n", " ") if isinstance(value, str) else value

    return make_environment(finalize=on_one_line).get_template(template).module
