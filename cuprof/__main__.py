"""Run `python -m cuprof`."""

import sys

from cuprof.core.interrupts import INTERRUPTED

__all__ = ["main"]


def main() -> int:
    """Run the command of this process's words, which ends the process; return the exit code where nothing was begun."""
    try:
        from cuprof.cli import main as entry

        return entry.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    if not sys.flags.safe_path:  # the current folder comes first, whose files may be named like modules: numpy.py
        sys.path.append(sys.path.pop(0))
    sys.exit(main())
