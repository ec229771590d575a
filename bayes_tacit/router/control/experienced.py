"""A controller that asks past episodes, before each step, whether Strong should take over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_HANDOFF, DEFAULT_TIMING, HANDOFFS, TIMINGS, Handoff, Timing
from bayes_tacit.router.control.experience import Experience
from bayes_tacit.router.control.pilot import GO_ON, Checkpoint, Choice, GoingOn, Pilot, chosen
from bayes_tacit.router.control.summaries import Summaries
from bayes_tacit.router.decision import STRONG_BY, Call

LOG_SEEN = "log steps seen"
"""The column with log(1 + the number of steps seen)."""

SUMMARIES = ("total", "last", "highest")
"""What is remembered of each diagnostic; all are 0 before the first step."""


def net_gain(asked: np.ndarray, price: float) -> np.ndarray:
    """Give what Strong gains in success over Cheap, less the price of what it costs more; NaN stays NaN.

    Parameters
    ----------
    asked
        (..., 4), what `Experience.ask` gives.
    price
        Success that is given up for the cost of Strong on average.

    Examples
    --------
    >>> net_gain(np.array([[10.0, 2.0, 8.0, 5.0]]), price=0.2)
    array([0.5])
    """
    count, cheap, strong, cost = np.moveaxis(asked, -1, 0)
    gain: np.ndarray = (strong - cheap) / count - price * (cost / count)
    return gain


@dataclass(frozen=True)
class EvoRouteController:
    """Hands off for good where the nearest past moments say that Strong gains enough for what it costs.

    Attributes
    ----------
    diagnostics
        The diagnostics that it looks at.
    experience
        Past episodes, by the task's features, of each diagnostic the sum so far (`total risk`), the latest (`last
        risk`) and the highest value (`highest risk`), and `log steps seen`.
    price
        As for `net_gain`.
    threshold
        Of the net gain.
    start
        Whether it also decides before the first step, from the features alone.
    timing, handoff
        As for `CountController`.

    Examples
    --------
    >>> names, counts = ("total risk", "last risk", "highest risk", LOG_SEEN), np.array([10, 10])
    >>> places = np.array([[0.0, 0, 0, 0], [2, 1, 1, 1]])
    >>> past = Experience(names, (0,) * 4, (1,) * 4, places, counts, np.array([9, 1]), np.array([9, 8]), counts, 1)
    >>> pilot = EvoRouteController(("risk",), past, price=0.1, threshold=0.5).begin({}, "task-1")
    >>> pilot.before().call, [pilot.checkpoint(Checkpoint({"risk": risk})).call for risk in (0.1, 0.9)]
    ('cheap', ['cheap', 'strong'])
    """

    diagnostics: tuple[str, ...]
    experience: Experience
    price: float
    threshold: float
    start: bool = True
    timing: Timing = DEFAULT_TIMING
    handoff: Handoff = DEFAULT_HANDOFF
    name: str = "evoroute"

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.number("price", self.price, "a finite number >= 0", least=0)
        validate.number("threshold", self.threshold)
        validate.flag("start", self.start)
        validate.choice("timing", self.timing, TIMINGS)
        validate.choice("handoff", self.handoff, HANDOFFS)

    def begin(self, features: Mapping[str, float], episode: str) -> Pilot:
        """Begin an episode."""
        return _Asking(self, features, episode)


class _Asking(GoingOn):
    def __init__(self, policy: EvoRouteController, features: Mapping[str, float], episode: str) -> None:
        self._policy = policy
        self._features = features
        self._episode = episode
        self._seen = Summaries(policy.diagnostics)
        self._opened = not policy.start

    def before(self) -> Choice:
        if self._opened:
            return GO_ON
        self._opened = True
        nothing = {f"{word} {name}": 0.0 for word in SUMMARIES for name in self._policy.diagnostics}
        # There is nothing yet that a restart would begin anew.
        return self._choice(nothing, "strong")

    def checkpoint(self, checkpoint: Checkpoint) -> Choice:
        policy = self._policy
        self._seen.add(chosen(checkpoint.diagnostics, policy.diagnostics, "diagnostics", self._episode))
        return self._choice(self._seen.by_name(), STRONG_BY[policy.handoff])

    def _choice(self, seen: Mapping[str, float], strong: Call) -> Choice:
        policy = self._policy
        known = {**self._features, **seen, LOG_SEEN: float(np.log1p(self._seen.steps))}
        moment = chosen(known, policy.experience.names, "names")
        asked = policy.experience.ask(np.array([list(moment.values())]))
        score = float(net_gain(asked, policy.price)[0])
        count, cheap, strong_solves, _ = asked[0].tolist()
        facts = {"score": score, "cheap": cheap / count, "strong": strong_solves / count}
        return Choice(strong if score >= policy.threshold else "cheap", facts=facts)

    def memory(self) -> tuple[float, ...]:
        return self._seen.memory()

    def recall(self, memory: tuple[float, ...]) -> None:
        self._seen.recall(memory)
