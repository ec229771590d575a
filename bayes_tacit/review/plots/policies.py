"""One colour and one marker for each policy, the same in every figure."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple


class PolicyStyle(NamedTuple):
    """How a policy is drawn."""

    color: str
    marker: str


POLICY_STYLES = MappingProxyType(
    {
        "Pure Cheap": PolicyStyle("#999999", "v"),
        "Pure Strong": PolicyStyle("#555555", "^"),
        "Task Router": PolicyStyle("#E69F00", "s"),
        "Step Deferral": PolicyStyle("#CC79A7", "D"),
        "Prefix router": PolicyStyle("#009E73", "P"),
        "First Alarm": PolicyStyle("#7F0000", "p"),
        "Count": PolicyStyle("#D62728", "d"),
        "Landmark": PolicyStyle("#17BECF", "8"),
        "TRIM analogue": PolicyStyle("#F781BF", "<"),
        "EvoRoute analogue": PolicyStyle("#A6761D", "X"),
        "Cascade": PolicyStyle("#8C6BB1", "X"),
        "TACIT-Switch": PolicyStyle("#0072B2", "o"),
        "recommended": PolicyStyle("#000000", "D"),
        "TACIT-Switch, posterior mean": PolicyStyle("#56B4E9", "h"),
        "TACIT-Switch, memory by likelihood": PolicyStyle("#2166AC", "H"),
        "TACIT-Switch with memory": PolicyStyle("#4393C3", "H"),
        "TACIT-Switch with memory, start and pace": PolicyStyle("#5E4FA2", "^"),
        "Tuned switch": PolicyStyle("#D6604D", "*"),
        "Step Deferral by task": PolicyStyle("#C51B7D", "D"),
        "Recommended": PolicyStyle("#B2182B", "*"),
        "x-only": PolicyStyle("#B8860B", "<"),
        "risk-only": PolicyStyle("#D55E00", ">"),
        "best possible": PolicyStyle("#000000", "*"),
    }
)
"""Colours that colour-blind eyes tell apart (Okabe and Ito's, greys, a dark red), with markers that differ too."""


def policy_style(name: str) -> PolicyStyle:
    """Give a policy's style; one that has none of its own takes that of the longest known name it begins with.

    Examples
    --------
    >>> policy_style("TACIT-Switch").color, policy_style("Prefix router, K = 2").marker
    ('#0072B2', 'P')
    """
    known = [other for other in POLICY_STYLES if name.startswith(other)]
    return POLICY_STYLES[max(known, key=len)] if known else PolicyStyle("#000000", ".")
