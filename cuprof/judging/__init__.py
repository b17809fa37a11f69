"""`judge`: is what a stranger has written right, honest and at least as fast as the baseline?"""

from cuprof.judging.court import judge
from cuprof.judging.report import Candidate, Report, Ruling
from cuprof.judging.request import Request

__all__ = ["Candidate", "Report", "Request", "Ruling", "judge"]
