"""Run `python -m cuprof`."""

import signal
import sys

from cuprof.core.interrupts import INTERRUPTED

__all__ = ["main"]


def main() -> int:
    """Run the command of this process's words, which ends the process; return the exit code where nothing was begun."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # until the command itself listens, they end imports like Ctrl-C
            signal.signal(number, signal.default_int_handler)
    try:
        from cuprof.cli import main as entry

        return entry.main()
    except KeyboardInterrupt:
        return INTERRUPTED


if __name__ == "__main__":
    if not sys.flags.safe_path:
        # The current folder comes first, and its files may be named like modules: numpy.py. It must not come last:
        # a candidate's file could be named like an optional module that is not installed.
        sys.path.pop(0)
    sys.exit(main())
