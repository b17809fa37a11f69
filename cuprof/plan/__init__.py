"""From a selection to trials: validation, expansion, constraints, identities. Knows no device and no database."""

from cuprof.plan.expression import ExpressionError, evaluate
from cuprof.plan.identity import IDENTITY_VERSION, method_hash, plan_hash
from cuprof.plan.model import Exclusion, Plan, Selection
from cuprof.plan.planner import plan
from cuprof.plan.selection import select_variants

__all__ = [
    "IDENTITY_VERSION",
    "Exclusion",
    "ExpressionError",
    "Plan",
    "Selection",
    "evaluate",
    "method_hash",
    "plan",
    "plan_hash",
    "select_variants",
]
