"""The choice of what to run: bare words, near misses, and the list of what could be chosen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from cuprof.cli.output import print_message
from cuprof.core.errors import ConfigError, suggest
from cuprof.core.project import Project, bundled, checkout

MEANT = {
    **dict.fromkeys(("quick", "precise", "hot"), "measure={}"),
    **dict.fromkeys(("cpu", "cuda", "opencl"), "device={}"),
    **dict.fromkeys(("gpu", "nvidia"), "device=cuda"),
    **dict.fromkeys(("dry", "list", "preview"), "dry_run=true"),
    **dict.fromkeys(("again", "force", "rerun"), "retry=all"),
    "json": "output=json",
    "counters": "ncu.enabled=true",
    "profile": "ncu.enabled=true",
    "variant": "variants={}",
    "database": "store.url={}",
    "db": "store.url={}",
}
"""Words that people try → the setting that they mean, with the word or its value in {}."""
_RUNS = ("cuprof.compare", "tune_kernel")
"""Calls in a Python file that can be swept by itself."""
MOST_FILES = 5
_FOLDER, _JOBS = ("--config-dir", "-cd"), ("--multirun", "-m")
"""Hydra's options that do not choose what runs; all others show something or name a configuration."""


def find_meant(word: str) -> str:
    """Return the setting that an option or a bare word stands for, such as measure=quick for --quick, or ""."""
    from cuprof.config.overrides import GROUPS

    key, equals, value = word.lstrip("-").replace("-", "_").partition("=")
    if key in MEANT:
        return MEANT[key].format(value if equals else "…" if MEANT[key].startswith(("variants", "store")) else key)
    return f"{key}={value or '…'}" if key in GROUPS else ""


def name_setting(word: str, project: Project) -> str:
    """Return the setting that a word without "=" stands for: the family of that name, else the experiment.

    Raises:
        ConfigError: there is neither; the message names the nearest.
    """
    from cuprof.families.origin import list_families

    families, experiments = list_families(project.kernel_folders), list_experiments(project)
    if word in families:
        return f"family={word}"
    if word in experiments:
        return f"experiment={word}"
    if meant := find_meant(word):
        raise ConfigError(f"{word!r} is not a setting: did you mean {meant}?")
    raise ConfigError(
        f"{word!r} is not a setting (NAME=VALUE), a family or an experiment: {suggest(word, {*families, *experiments})}"
    )


def list_experiments(project: Project) -> dict[str, Path]:
    """Return name → file of every experiment, the project's own first."""
    return list_choices(project, "experiment")


def list_choices(project: Project, group: str) -> dict[str, Path]:
    """Return name → file of every choice of a group of the configuration, the project's own first."""
    found: dict[str, Path] = {}
    for folder in project.conf_folders:
        for file in sorted((folder / group).rglob("*.yaml")):
            if not file.name.startswith("_"):
                found.setdefault(file.relative_to(folder / group).with_suffix("").as_posix(), file)
    return found


def is_chosen(argv: Sequence[str], project: Project) -> bool:
    """Return whether a command line, the project's own configuration or its place says what to run.

    In a checkout of cuprof its default experiment is meant; elsewhere it would be somebody else's kernels.
    """
    if project.root == checkout() or _has_main(project):
        return True
    before = ["", *argv]
    words = [word for word, option in zip(argv, before, strict=False) if option not in ("--store", *_FOLDER)]
    options = {word.partition("=")[0] for word in words if word.startswith("-")}
    keys = {word.lstrip("+~").partition("=")[0] for word in words if "=" in word}
    named = [word for word in words if "=" not in word and not word.startswith("-")]
    return bool(named or keys & {"experiment", "family"} or options - {"--store", *_FOLDER, *_JOBS})


def _has_main(project: Project) -> bool:
    return any((folder / "config.yaml").is_file() for folder in project.conf_folders if folder != bundled("conf"))


def tell_choice(command: str, project: Project, families: Sequence[str] = ()) -> int:
    """Say on the standard error what a command could take here, and return the exit code of bad input.

    Args:
        families: what it takes in place of experiments and the project's own families.
    """
    print_message(f"error: name what cuprof {command} is to {'check' if families else 'run'}")
    found = [(file.name, "a file here") for file in _runnable_files(Path.cwd())]
    found += [(name, "a family") for name in families] or _list_choices(project)
    width = max(len(word) for word, _ in found)
    for word, what in found:
        print_message(f"  cuprof {command} {word:{width}}  {what}")
    if not _own_kernels(project):
        print_message("  cuprof init DIR  makes a project of your own with an example")
    return ConfigError.exit_code


def _list_choices(project: Project) -> Iterator[tuple[str, str]]:
    """Yield what sweeps could run: the project's own families and studies, then cuprof's."""
    if own := _own_kernels(project):
        from cuprof.families.origin import list_families

        yield from ((name, "a family of this project") for name in list_families(own))
    else:
        yield "FILE.py", "a file that calls cuprof.compare, or Kernel Tuner's tune_kernel"
    for name, file in list_experiments(project).items():
        is_own = file.is_relative_to(project.root)
        yield f"experiment={name}", "a study of this project" if is_own else "comes with cuprof"


def _own_kernels(project: Project) -> list[Path]:
    return [folder for folder in project.kernel_folders if folder.is_relative_to(project.root)]


def _runnable_files(folder: Path) -> list[Path]:
    files = (file for file in sorted(folder.glob("*.py")) if file.is_file())
    texts = ((file, file.read_text(encoding="utf-8", errors="replace")) for file in files)
    return [file for file, text in texts if any(word in text for word in _RUNS)][:MOST_FILES]
