"""Scores of an episode whose past fades, under one value of the parameters.

A loop over diagnostics costs more in Python than what it computes. So the function that takes a checkpoint in is
written for the router's number of diagnostics, as one would by hand, and compiled once for all of its episodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, log, nan
from typing import Any

from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.totals import Scored, Total, overflow

Advance = Callable[[Any, Given], Scored]
"""Takes the state and the diagnostics of a checkpoint in."""

WRITTEN = """\
def of_episode(pi, location):
    def advance(state, given):
        ({levels},), ({peaks},), {clock}before = state
        try:
            {values}, = pick(given)
            check = 0.0 + {sum} if {nonnegative} else nan
        except UNREADABLE:
            check = nan
        # NaN, infinity and NumPy's types survive the sum, so one look at it is enough.
        if type(check) is not float or not check < inf:
            {values}, = read(given)
{fading}
        risk = {risk}
        if 0.0 < risk < inf:
            q = pi * distribution((log(risk) - location) / s)
            return (({levels},), ({peaks},), {clock}risk), risk - before, risk, q, None, None
        if risk == 0.0:
            return (({levels},), ({peaks},), {clock}risk), 0.0, risk, 0.0, None, None
        raise overflow(risk)
    return advance
"""
"""A checkpoint, with blanks for what is repeated by diagnostic; R is summed in the order in which tables are scored.

Sums and peaks are tuples of their own: Python keeps used tuples at hand only up to a length of 20.
"""

FADING = """\
        l{j} = {memory} * l{j} + u{j}
        if l{j} > p{j}:
            p{j} = l{j}
"""

UNREADABLE = (KeyError, TypeError, ValueError, ArithmeticError)
KNOWN = {"log": log, "inf": inf, "nan": nan, "overflow": overflow, "UNREADABLE": UNREADABLE}
"""What the text speaks of besides its router's numbers."""


class LeakyPoint:
    """What all episodes of a router with a memory or a clock share; makes their scorers.

    Parameters
    ----------
    weights
        Those of the diagnostics, and the clock's last if there is one.
    memory
        rho.
    s, distribution, fields
        As for `PointScorer`.
    """

    def __init__(
        self, weights: Sequence[float], memory: float, s: float, distribution: Callable[[float], float], fields: Fields
    ) -> None:
        d = len(fields.names)
        self.weights = weights
        self.diagnostics = d
        known = {"s": s, "distribution": distribution, "pick": fields.pick, "read": fields.read}
        namespace: dict[str, Any] = {**KNOWN, **known}
        # All that varies in the text are floats that were checked.
        exec(written_out(d, weights, memory), namespace)
        self._of_episode: Callable[[float, float], Advance] = namespace["of_episode"]

    def scorer(self, pi: float, location: float) -> LeakyPointScorer:
        """Make the scorer of an episode from what its features say."""
        return LeakyPointScorer(self, pi, self._of_episode(pi, location))


class LeakyPointScorer:
    """Scores under one value of the parameters, in plain floats; the total is (L, P), and the steps of a clock.

    Parameters
    ----------
    shared
        What all episodes share.
    pi
        The incidence.
    advance
        Lets the sums fade, adds the diagnostics of a checkpoint, and keeps the peaks.
    """

    __slots__ = ("_shared", "advance", "pi")

    def __init__(self, shared: LeakyPoint, pi: float, advance: Advance) -> None:
        self._shared = shared
        self.pi = pi
        self.advance = advance

    def resume(self, total: Total | None) -> tuple[Any, ...]:
        """Go on from the total; the state holds R besides, so that it is computed once a checkpoint."""
        d, weights = self._shared.diagnostics, self._shared.weights
        given = (0.0,) * (d + len(weights)) if total is None else total
        risk = 0.0
        for weight, reached in zip(weights, given[d:], strict=True):
            risk += weight * reached
        return given[:d], given[d : 2 * d], *given[2 * d :], risk

    def total(self, state: tuple[Any, ...]) -> Total:
        """Give what has accumulated."""
        levels, peaks, *steps, _ = state
        return (*levels, *peaks, *steps)


def written_out(diagnostics: int, weights: Sequence[float], memory: float) -> str:
    """Write the function for so many diagnostics; one more weight is a clock's.

    Examples
    --------
    >>> [line.strip() for line in written_out(2, [0.5, 0.3, 0.2], 0.6).splitlines() if "p1" in line][1:4]
    ['if l1 > p1:', 'p1 = l1', 'risk = 0.5 * p0 + 0.3 * p1 + 0.2 * steps']
    """
    each = range(diagnostics)
    clock = len(weights) > diagnostics
    reached = [f"p{j}" for j in each] + ["steps"] * clock
    return WRITTEN.format(
        levels=", ".join(f"l{j}" for j in each),
        peaks=", ".join(f"p{j}" for j in each),
        values=", ".join(f"u{j}" for j in each),
        clock="steps, " * clock,
        sum=" + ".join(f"u{j}" for j in each),
        nonnegative=" and ".join(f"u{j} >= 0.0" for j in each),
        fading="".join(FADING.format(j=j, memory=repr(memory)) for j in each) + "        steps += 1.0" * clock,
        risk=" + ".join(f"{weight!r} * {name}" for weight, name in zip(weights, reached, strict=True)),
    )
