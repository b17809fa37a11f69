"""Run `python -m cuprof`."""

import sys

from cuprof.commands.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
