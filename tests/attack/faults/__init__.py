"""What a server may do wrong, by name: each fault answers one request on a plain connection.

A fault is a function of a `Line`, on which bytes are sent as they are, and what has to come of it: "refused" (an
`ActorError`), "answered", or "either".
"""

from __future__ import annotations

from attack.faults import breaking, coding, echoing, numbers, protocol, stalling, statuses, types
from attack.faults.line import Fault

FAMILIES = (stalling, breaking, protocol, coding, statuses, types, numbers, echoing)


def faults() -> dict[str, Fault]:
    """Give all of them by name."""
    found: dict[str, Fault] = {}
    for family in FAMILIES:
        for name, fault in family.faults().items():
            word = f"{family.__name__.rpartition('.')[2]}: {name}"
            assert word not in found, word
            found[word] = fault
    return found
