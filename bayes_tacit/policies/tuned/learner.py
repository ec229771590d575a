"""What tuned switches learn from training episodes; several that search different numbers learn it once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.errors import ConvergenceError, InvalidDataError
from bayes_tacit.estimates.map_fit import MapFit, fit_map
from bayes_tacit.policies.logistic import NEWTON
from bayes_tacit.policies.tuned.numbers import PLAIN, TRIED
from bayes_tacit.policies.tuned.scoring import Learned, learned_from
from bayes_tacit.policies.view import Seen

SHORT: Mapping[str, Any] = {"zero_mass": "drop_window", "restarts": 2, "max_iterations": 100}
"""How a model with less than a full memory is fitted: fast, and with all that its windows still say."""


@dataclass(frozen=True, eq=False)
class Learner:
    """Fits the model for each memory, and Cheap's own chance; the same episodes again are not fitted again.

    Attributes
    ----------
    options
        What `fit_map` is called with.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    _last: dict[str, tuple[Episodes, Learned]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("memory", "clock"):
            if name in self.options:
                raise InvalidDataError(f"none named {name!r}: it is searched", field="options", value=self.options)

    def __call__(self, training: Episodes) -> Learned:
        """Learn from training episodes."""
        if "last" not in self._last or self._last["last"][0] is not training:
            self._last["last"] = training, self._learn(training)
        return self._last["last"][1]

    def _learn(self, training: Episodes) -> Learned:
        fits = {memory: fit for memory in TRIED["memory"] if (fit := self._estimate(training, memory)) is not None}
        seen = Seen.of(training)
        columns = seen.task_columns(seen.feature_names)
        cheap = NEWTON.fit(seen.feature_names, columns, training.dataset["cheap_success"].values)
        return learned_from(fits, cheap, seen)

    def _estimate(self, training: Episodes, memory: float) -> MapFit | None:
        if memory == PLAIN["memory"]:
            return fit_map(training, memory=memory, **self.options)
        try:
            return fit_map(training, memory=memory, **{**SHORT, **self.options})
        except ConvergenceError:
            # With nearly empty windows the likelihood can be too rough; the memories beside it are as good.
            return None
