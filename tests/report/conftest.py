"""Pages of the invented sweeps that the analysis is tested with."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for the invented sweeps

from study_data import make_study, reductions, store

__all__ = ["make_study", "reductions", "store"]
