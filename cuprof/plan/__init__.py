"""From a selection to trials: validation, expansion, constraints, identities. Knows no device and no database."""

from cuprof.plan.identity import plan_hash
from cuprof.plan.model import Plan, Selection
from cuprof.plan.planner import plan

__all__ = ["Plan", "Selection", "plan", "plan_hash"]
