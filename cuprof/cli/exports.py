"""The best configurations in the forms that programs read: JSON, a C header, Python and Triton."""

from __future__ import annotations

import json
import pprint
from typing import Any

from cuprof.core.errors import UsageError
from cuprof.core.text import visible
from cuprof.report.portfolio import Portfolio, to_header

LAUNCH = ("num_warps", "num_stages", "num_ctas", "maxnreg")
"""Tunables that Triton takes beside a kernel's own; see triton.Config."""

PICK = '''\
def pick(**problem):
    """Return (variant, tunables) of the nearest problem that was measured, by the logarithms of its numbers."""

    def distance(known):
        parts = ((problem[name], value) for name, value in known.items())
        return sum(
            abs(math.log((a + 1) / (b + 1))) if isinstance(b, (int, float)) else 1e6 * (a != b) for a, b in parts
        )

    return CONFIGURATIONS[min(PROBLEMS, key=lambda each: distance(each[0]))[1]]
'''


def to_json(portfolio: Portfolio) -> str:
    """Return each problem with its variant, tunables and time."""
    problems = [
        {
            "problem": dict(pick.problem),
            "variant": portfolio.configurations[pick.number][0],
            "tunables": dict(portfolio.configurations[pick.number][1]),
            "median_ns": pick.median_ns,
            "samples": pick.samples,
            "ratio": pick.ratio,
        }
        for pick in portfolio.picks
    ]
    facts = {"family": portfolio.family, "device": portfolio.device, "within": portfolio.within}
    return json.dumps({**facts, "problems": problems}, indent=2, ensure_ascii=False) + "\n"


def to_python(portfolio: Portfolio) -> str:
    """Return a module with the configurations and a function `pick` that chooses one by problem."""
    configurations = [(variant, dict(point)) for variant, point in portfolio.configurations]
    return (
        f'"""{_heading(portfolio)}"""\n\nimport math\n\n'
        f"CONFIGURATIONS = {_literal(configurations)}\n"
        f"PROBLEMS = {_literal(_numbered(portfolio))}\n"
        f'"""Problem, and the number of its configuration."""\n\n\n{PICK}'
    )


def to_triton(portfolio: Portfolio) -> str:
    """Return a module with one `triton.Config` a configuration, for `triton.autotune` or to pick from by problem.

    Raises:
        UsageError: a tunable has a name that is no parameter's.
    """
    made = []
    for variant, point in portfolio.configurations:
        own = {name: value for name, value in point.items() if name not in LAUNCH}
        if odd := next((name for name in own if not name.isidentifier()), ""):
            raise UsageError(f"{odd!r} cannot be the name of a Triton kernel's parameter; take --export json")
        words = [repr(own), *(f"{name}={point[name]!r}" for name in LAUNCH if name in point)]
        made.append(f"    triton.Config({', '.join(words)}),  # {visible(variant, keep='')}\n")
    return (
        f'"""{_heading(portfolio)}"""\n\nimport triton\n\n'
        f"CONFIGURATIONS = [\n{''.join(made)}]\n"
        f"PROBLEMS = {_literal(_numbered(portfolio))}\n"
        '"""Problem, and the number of its configuration."""\n'
    )


EXPORTERS = {"json": to_json, "header": to_header, "triton": to_triton, "python": to_python}


def _numbered(portfolio: Portfolio) -> list[tuple[dict[str, Any], int]]:
    return [(dict(pick.problem), pick.number) for pick in portfolio.picks]


def _heading(portfolio: Portfolio) -> str:
    best = f"within {100 * portfolio.within:g}% of the best" if portfolio.within else "the best"
    text = f"{portfolio.family} on {portfolio.device}: {best} of each problem. Written by cuprof best."
    return visible(text, keep="").replace("\\", "/").replace('"', "'")


def _literal(value: Any) -> str:
    return pprint.pformat(value, width=100, sort_dicts=False)
