"""What a document claims to exist: links, commands, options, settings, queries, files, words of the code."""

from __future__ import annotations

import atexit
import inspect
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from functools import cache
from io import StringIO
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp

import cuprof.families
from cuprof.cli.hydra_app import read_arguments
from cuprof.cli.main import COMMANDS
from cuprof.config.build import list_settings
from cuprof.config.composer import compose
from cuprof.core.errors import CuprofError
from cuprof.core.project import Project
from cuprof.interop.origins import find_origin
from cuprof.plan import Selection
from cuprof.plan.selection import read_selection
from cuprof.results.queries import list_queries, query
from cuprof.store.store import Store

ROOT = Path(__file__).resolve().parents[2]
PROJECT = Project(ROOT)
SOURCES = ("cuprof", "conf", "db", "kernels", "experiments", "benchmarks", "tests/data/ncu/recorded")
FOREIGN_OPTIONS = {"--jsonbin"}
"""Options of nvbench, which is not here to be asked."""

MADE_LATER = ("db/artifacts", "db/jobs", "db/cuprof.sqlite", "reports/out", "cuprof/_bundled")
"""Places that cuprof makes."""

_FENCE = re.compile(r"^(\s*)```(\w*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?:^(?: {4}|\t)[^\n]*\n)+", re.MULTILINE)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_COMMAND = re.compile(r"^\s*(?:\$ )?(?:python -m )?cuprof (.+)$")
_SETTING = re.compile(r"^(?P<prefix>[+~]{0,2})(?P<key>[a-z_]+(?:[./][a-zA-Z_]+)*)=(?P<value>.*)$")
_GROUPED = re.compile(r"^(measure|check|device|limits|store|ncu|report)\.([a-z_]+)$")
_PLACEHOLDER = re.compile(
    r"\b(?:NAME|COMMAND|AXIS|FILE|DIR|URL|ID|BASE|NEW|VALUE|USER|HOST|DATABASE|SHELL|KERNEL|JOB|IDENTITY|FOLDER|[A-Z])\b|…"
)


@dataclass(frozen=True)
class Document:
    """One Markdown file: where it stands (for links), and its text."""

    path: Path
    text: str

    @property
    def prose(self) -> str:
        """Return the text without blocks of code and tables."""
        return re.sub(r"^ *\|.*$", "", _INDENTED.sub("\n", _FENCE.sub("\n", self.text)), flags=re.MULTILINE)

    @property
    def code_lines(self) -> list[str]:
        """Return the lines of all blocks of code, and the code in sentences."""
        blocks = [match[3] for match in _FENCE.finditer(self.text)]
        blocks += _INDENTED.findall(_FENCE.sub("\n", self.text))
        return [line for block in blocks for line in block.splitlines()] + self.spans

    @property
    def spans(self) -> list[str]:
        """Return the code in sentences and tables."""
        return _SPAN.findall(_FENCE.sub("\n", self.text))


def problems(document: Document) -> list[str]:
    """Return every claim of the document that is not true."""
    checks = (_links, _commands, _settings, _options, _queries, _paths, _words, _modules)
    return list(dict.fromkeys(text for check in checks for text in check(document)))


def anchors(text: str) -> set[str]:
    """Return the anchors that GitHub makes of a document's headings."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _links(document: Document) -> Iterator[str]:
    for target in _LINK.findall(document.text):
        place, _, anchor = target.partition("#")
        if "://" in place:
            continue
        file = (document.path.parent / place).resolve() if place else document.path
        if place and not file.exists():
            yield f"link {target}: there is no such file"
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8") if place else document.text):
            yield f"link {target}: there is no such heading"


def _commands(document: Document) -> Iterator[str]:
    for line in document.code_lines:
        match = _COMMAND.match(line)
        if match is None:
            continue
        text = re.split(r" +# | \|\|? | >(?=\w)", match[1])[0].strip()
        command, *words = shlex.split(text)
        if command.startswith("-") or _PLACEHOLDER.fullmatch(command) or _shown_files() & set(words):
            continue
        if command not in COMMANDS:
            yield f"{line.strip()}: there is no command {command}"
        elif words and not _PLACEHOLDER.search(re.sub(r'"[^"]*"|git:\S+', "", text)):
            try:
                _try_command(command, words, document.text)
            except (CuprofError, SystemExit) as error:
                yield f"{line.strip()}: {error}"


@cache
def _shown_files() -> set[str]:
    """Return the names of the files that documents show, which tests run."""
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    return set(re.findall(r"^```python\n# (\w+\.py)$", "\n".join(texts), re.MULTILINE))


def _try_command(command: str, words: list[str], text: str) -> None:
    if not COMMANDS[command].is_hydra:
        COMMANDS[command].parser.parse_intermixed_args(words)
        is_written = command == "query" and words and f"{words[0]}.sql" in text  # a document may say how to write one
        if command == "query" and words and not words[0].startswith("-") and not is_written:
            _try_query(words[0])
        return
    _, settings = read_arguments(command, [word for word in words if word != "--help"])
    kept = [_first_job(word) for word in settings if not word.startswith("hydra/")]
    # A document may tell how to write a variant, and then run it.
    written = re.findall(r'@family\.\w+\("(\w+)"', text)
    kept = [re.sub(rf",(?:{'|'.join(written)})\b", "", word) if written else word for word in kept]
    kept = [word.replace("experiment=all_studies", "experiment=reduction") for word in kept]
    folders = (ROOT / "cuprof" / "cli" / "template" / "conf",)
    names = [word.partition("=")[2] for word in kept if word.startswith(("experiment=", "family="))]
    if any((folder / "experiment" / f"{name}.yaml").exists() for folder in folders for name in names):
        return  # of the example project that cuprof init makes
    _select(tuple(kept))


@cache
def _select(settings: tuple[str, ...]) -> None:
    """Compose the settings, and choose from the family what they ask for."""
    config = compose(settings, PROJECT)
    family = find_origin(config.family, PROJECT.folders("kernels")).load()
    read_selection(
        family,
        Selection(
            config.variants,
            problem=config.problem,
            tune=config.tune,
            presets=config.presets,
            optional=config.optional,
        ),
    )


def _first_job(setting: str) -> str:
    """Return the first of the settings that a list on a key which is no axis stands for."""
    key, _, value = setting.partition("=")
    is_axis = re.match(r"variants$|problem\.|tune\.", key)
    return setting if is_axis or value.startswith("[") else f"{key}={value.partition(',')[0]}"


def _settings(document: Document) -> Iterator[str]:
    for span in document.spans:
        for word in span.split():
            match = _SETTING.match(word)
            if match is None:
                if _GROUPED.match(word) and word not in list_settings() and not word.endswith((".py", ".yaml")):
                    yield f"{span}: there is no setting {word}"
                continue
            key, value = match["key"], match["value"]
            folder = ROOT / "conf" / key
            if folder.is_dir():
                choices = [file.stem for file in folder.glob("*.yaml")]
                if value and not _PLACEHOLDER.search(value) and value not in [*choices, "scale"]:
                    yield f"{span}: {key} has no choice {value}"
            elif not _is_key(key) and not key.startswith("launch.options."):  # a launcher's own
                yield f"{span}: there is no setting {key}"


def _is_key(key: str) -> bool:
    if key in list_settings() or re.match(r"(problem|tune)\.\w+$", key) or key.startswith("hydra/"):
        return True
    return key in _python_arguments()


@cache
def _python_arguments() -> set[str]:
    """Return the arguments of what a family.py is written with: they are written key= as well."""
    names = {name for function in (cuprof.compare, cuprof.kernel) for name in inspect.signature(function).parameters}
    for name in cuprof.families.__all__:
        each = getattr(cuprof.families, name)
        methods = (
            [getattr(each, method) for method in dir(each) if not method.startswith("_")]
            if isinstance(each, type)
            else []
        )
        for function in (each, *methods):
            if callable(function):
                try:
                    names |= set(inspect.signature(function).parameters)
                except ValueError:
                    continue
    return names


def _options(document: Document) -> Iterator[str]:
    for span in document.spans:
        if _COMMAND.match(span):
            continue  # tried as a whole
        for option in re.findall(r"(?<!\S)--[a-z][\w-]*", span):
            if option not in _known_options():
                yield f"{span}: no command has the option {option}"


@cache
def _known_options() -> set[str]:
    texts = [(ROOT / "tests" / "data" / "ncu" / "recorded" / "help.txt").read_text()]
    for command in COMMANDS.values():
        told = StringIO()
        with redirect_stdout(told), suppress(SystemExit):
            command.run(["--help"])
        texts.append(told.getvalue())
    options = [ROOT / "cuprof" / "cli" / "hydra_app.py", *(ROOT / "benchmarks").glob("*.py")]
    texts += [path.read_text(encoding="utf-8") for path in options]
    return set(re.findall(r"--[a-z][\w-]*", "\n".join(texts))) | FOREIGN_OPTIONS


def _queries(document: Document) -> Iterator[str]:
    for sentence in re.split(r"[.;:]\s", document.prose):
        if match := re.search(r"\bviews?\b(.*)", sentence, re.DOTALL):
            for name in re.findall(r"`([a-z_]+)`", match[1]):
                if name not in list_queries():
                    yield f"there is no view or query {name}"
    for name in re.findall(r"cuprof\.load\(\"(\w+)\"\)", document.text):
        if name not in list_queries():
            yield f"cuprof.load: there is no view or query {name}"


def _try_query(text: str) -> None:
    """Run a query against an empty database."""
    if " " not in text:
        if text not in list_queries():
            raise CuprofError(f"there is no view or query {text}")
        return
    query(_empty_database(), text)


@cache
def _empty_database() -> str:
    folder = mkdtemp()
    atexit.register(rmtree, folder, ignore_errors=True)
    url = f"sqlite:///{folder}/empty.sqlite"
    Store.open(url).close()
    return url


def _paths(document: Document) -> Iterator[str]:
    for span in document.spans:
        place = span.split()[0].rstrip("/").partition(":")[0]
        looks = re.fullmatch(r"[\w.\-]+(/[\w.\-]+)+", place) and place.split("/")[0] in _top()
        looks = looks or re.fullmatch(r"[\w\-]+\.(md|toml|yaml|py|sql|cu|cuh|cl)", place)
        if (
            not looks
            or _PLACEHOLDER.search(place)
            or "*" in place
            or place in MADE_LATER
            or f'"{Path(place).name}"' in document.text
        ):
            continue
        if not any((folder / place).exists() for folder in (ROOT, document.path.parent)) and not _is_file_name(place):
            yield f"{span}: there is no such file"


@cache
def _top() -> set[str]:
    return {path.name for path in ROOT.iterdir() if path.is_dir()}


@cache
def _is_file_name(name: str) -> bool:
    return "/" not in name and any(
        next((ROOT / folder).rglob(name), None) for folder in ("cuprof", "kernels", "experiments")
    )


def _words(document: Document) -> Iterator[str]:
    for span in document.spans:
        for word in re.findall(r"(?<![\w./-])[a-z]+(?:_[a-z0-9]+)+(?![\w/.-])", span):
            if word not in _source_words():
                yield f"{span}: the word {word} is nowhere in the code"


@cache
def _source_words() -> set[str]:
    found: set[str] = set()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".yaml", ".sql", ".cu", ".cuh", ".cl", ".csv", ".txt"):
                found |= set(re.findall(r"[a-z]+(?:_[a-z0-9]+)+", path.read_text(encoding="utf-8", errors="replace")))
    return found


def _modules(document: Document) -> Iterator[str]:
    for name in re.findall(r"\b(benchmarks\.\w+)\b", document.text):
        if not (ROOT / (name.replace(".", "/") + ".py")).exists():
            yield f"there is no module {name}"
    for name in re.findall(r"\bmake ([a-z-]+)\b", "\n".join(line for line in document.code_lines if "make " in line)):
        if not re.search(rf"^{name}:", (ROOT / "Makefile").read_text(), re.MULTILINE):
            yield f"there is no target {name} in the Makefile"
