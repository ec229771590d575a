"""Any other policy as a router: the same file, the same start and observe, the same log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from bayes_tacit import validate
from bayes_tacit.data.timing import DEFAULT_HANDOFF, HANDOFFS, TIMINGS, Handoff, Timing
from bayes_tacit.router import kinds, storage
from bayes_tacit.router.common import AnyRouter
from bayes_tacit.router.contents import ranges_content, read_ranges
from bayes_tacit.router.control import GoingOn
from bayes_tacit.router.fields import Fields, Given
from bayes_tacit.router.log import DecisionLog
from bayes_tacit.router.policy_state import PolicyState
from bayes_tacit.router.ranges import Ranges
from bayes_tacit.router.snapshots import Progress
from bayes_tacit.scores.provenance import check_provenance, provenance

KEYS = (
    *("format", "schema_version", "policy", "timing", "handoff", "diagnostics", "features", "ranges", "numbers"),
    *("provenance", "fingerprint"),
)
RESTARTING = ("prefix_router", "cascade")
"""Policies whose handoff is always a restart."""


@dataclass(frozen=True, eq=False, repr=False)
class PolicyRouter(AnyRouter[PolicyState]):
    """Decides as a policy does, while an agent runs; `fitted.router(setting)` makes it, `Router.load` reads it.

    What is given by name besides its features and diagnostics is left out, so an agent can send all that it has to
    whichever policy it runs.

    Attributes
    ----------
    controller
        The policy with its numbers.
    feature_names, diagnostic_names
        What it looks at.
    ranges
        What they were like in training, if that is known.
    provenance
        Where the numbers come from; kept, not interpreted.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> from bayes_tacit.policies import FirstAlarm
    >>> router = FirstAlarm("uncertainty").fit(load_example()).router({"alpha": 0.6})
    >>> router
    <PolicyRouter: first_alarm, post_action, resume; 1 diagnostic, 0 features>
    >>> state = router.start()
    >>> [state.observe({"uncertainty": value, "repeat": 0}).call for value in (0.2, 0.7, 0.1)]
    ['cheap', 'strong', 'strong']
    """

    controller: kinds.Played
    feature_names: tuple[str, ...] = ()
    diagnostic_names: tuple[str, ...] = ()
    ranges: Ranges | None = None
    provenance: Mapping[str, object] = field(default_factory=provenance)

    def __post_init__(self) -> None:
        """Check everything, and that a file can hold it."""
        validate.names("features", self.feature_names)
        validate.names("diagnostics", self.diagnostic_names)
        object.__setattr__(self, "provenance", check_provenance(self.provenance))
        if self.ranges is not None:
            self.ranges.check(self.feature_names, self.diagnostic_names)
        self._content()

    @cached_property
    def policy(self) -> str:
        """Which policy it is, as files name it."""
        return kinds.kind_of(self.controller)

    @property
    def timing(self) -> Timing:
        """What a checkpoint is."""
        return self.controller.timing

    @property
    def handoff(self) -> Handoff:
        """What Strong does after a handoff."""
        if self.policy in RESTARTING:
            return "restart"
        return getattr(self.controller, "handoff", DEFAULT_HANDOFF)

    @property
    def alpha(self) -> float | None:
        """The threshold; None where there is none, or where it depends on the task."""
        threshold = getattr(self.controller, "threshold", None)
        return None if threshold is None else kinds.finite(threshold)

    def begun(self, progress: Progress, log: DecisionLog | None) -> PolicyState:
        """Give the state of an episode that has come so far."""
        return PolicyState(self, progress, log)

    @property
    def accumulated(self) -> None:
        """How many numbers accumulate: that depends on the episode."""
        return None

    def settings(self) -> dict[str, object]:
        """Say in a log whose decisions these are."""
        return {
            "router": self.fingerprint,
            "policy": self.policy,
            "alpha": self.alpha,
            "rule": None,
            "timing": self.timing,
            "handoff": self.handoff,
        }

    def to_json(self) -> str:
        """Give the content of the file that `save` writes."""
        return storage.to_json({**self._content(), "fingerprint": self.fingerprint})

    @classmethod
    def of_content(cls, given: dict[str, Any]) -> PolicyRouter:
        """Make the router that the content of a file describes, checking all of it."""
        content: dict[str, Any] = validate.record("", given, KEYS)
        policy = validate.choice("policy", content["policy"], kinds.KINDS)
        kind = kinds.KINDS[policy]
        names, diagnostics = (validate.names(key, content[key]) for key in ("features", "diagnostics"))
        setup = kinds.Setup(
            validate.choice("timing", content["timing"], TIMINGS),
            validate.choice("handoff", content["handoff"], HANDOFFS),
            diagnostics,
        )
        controller = kind.read(validate.record("numbers", content["numbers"], kind.keys), setup)
        ranges = read_ranges(content["ranges"], names, diagnostics)
        return cls(controller, names, diagnostics, ranges, content["provenance"])

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of everything in it: equal for routers that are equal."""
        return hashlib.sha256(json.dumps(self._content(), sort_keys=True).encode()).hexdigest()

    def given(self, fields: Fields, given: Given) -> Given:
        """Leave out what is given by name and not looked at."""
        if isinstance(given, Mapping):
            return {name: given[name] for name in fields.names if name in given}
        return given

    def pilot(self, features: Mapping[str, float], episode: str) -> GoingOn:
        """Begin an episode of the policy."""
        # Every pilot of the library is one; the protocol of others asks for less.
        return cast("GoingOn", self.controller.begin(features, episode))

    def thresholds(self, features: Mapping[str, float]) -> tuple[float | None, float | None]:
        """Give what scores of this task are compared with before the first step, and later."""
        return kinds.thresholds(self.controller, features)

    def score_in(self, facts: Mapping[str, object]) -> float | None:
        """Find what was compared among a policy's facts."""
        found = facts.get(kinds.KINDS[self.policy].score, facts.get("value"))
        return None if found is None else float(found)  # type: ignore[arg-type]

    def _content(self) -> dict[str, object]:
        return {
            "policy": self.policy,
            "timing": self.timing,
            "handoff": self.handoff,
            "diagnostics": self.diagnostic_names,
            "features": self.feature_names,
            "ranges": ranges_content(self.ranges),
            "numbers": kinds.KINDS[self.policy].write(self.controller),
            "provenance": self.provenance,
        }

    def __repr__(self) -> str:
        counts = {"diagnostic": len(self.diagnostic_names), "feature": len(self.feature_names)}
        seen = ", ".join(f"{n} {word}{'' if n == 1 else 's'}" for word, n in counts.items())
        return f"<PolicyRouter: {self.policy}, {self.timing}, {self.handoff}; {seen}>"
