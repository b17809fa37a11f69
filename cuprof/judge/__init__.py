"""`judge`: decide whether a stranger's kernel is right, honest and at least as fast as the baseline."""

from cuprof.judge.court import judge
from cuprof.judge.report import Candidate, Report, Ruling
from cuprof.judge.request import Request

__all__ = ["Candidate", "Report", "Request", "Ruling", "judge"]
