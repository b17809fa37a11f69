"""Studies of invented sweeps, read back from a real store."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the module beside this file

from study_data import make_study, store

__all__ = ["make_study", "store"]
