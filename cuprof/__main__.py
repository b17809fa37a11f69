"""Run `python -m cuprof`."""

import sys

from cuprof.interrupts import INTERRUPTED

__all__ = ["main"]


def main() -> int:
    """Run the command of this process's words, which ends the process; return the exit code where nothing was begun."""
    try:
        from cuprof.commands import main as entry

        return entry.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
