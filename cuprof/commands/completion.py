"""Shell completion: Hydra completes settings, this module the commands ahead of them.

`eval "$(cuprof -sc install=bash)"` installs Hydra's shell function for `cuprof`; the shell then asks
`cuprof -sc query=bash` with the line in `COMP_LINE`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from cuprof.commands import hydra_app
from cuprof.commands.main import COMMANDS
from cuprof.errors import UsageError
from cuprof.project import Project

WORDS = {
    "list": ("families", "variants", "experiments", "devices", "metrics", "--json"),
    "query": ("best", "before_after", "speedups", "timings", "trials", "--format", "--output", "--url"),
    "doctor": ("--json",),
}
"""What may follow a command that is no Hydra application."""


def main(argv: Sequence[str]) -> int:
    """Print a shell's completion function, or the words that complete `COMP_LINE`."""
    action = argv[1] if len(argv) > 1 else ""
    if not re.fullmatch(r"(install|uninstall|query)=(bash|zsh|fish)", action):
        raise UsageError('completion takes install=SHELL; write eval "$(cuprof -sc install=bash)" (or zsh, fish)')
    if not action.startswith("query="):
        return _ask_hydra("", action)
    line = os.environ.get("COMP_LINE", "")
    program, _, rest = line.partition(" ")
    command, space, arguments = rest.lstrip().partition(" ")
    if not space:
        print(" ".join(name for name in COMMANDS if name.startswith(command)))
    elif command in COMMANDS and COMMANDS[command].is_hydra:
        os.environ["COMP_LINE"] = f"{program} {arguments}"
        return _ask_hydra(command, action)
    else:
        word = arguments.rpartition(" ")[2]
        print(" ".join(name for name in WORDS.get(command, ()) if name.startswith(word)))
    return 0


def _ask_hydra(command: str, action: str) -> int:
    # Hydra names the program by the first word of what it takes for the command line.
    return hydra_app.run(command, ["--shell-completion", action], _nothing)


def _nothing(config: object, project: Project) -> int:
    return 0
