"""One episode under a router: evidence goes in checkpoint by checkpoint, a decision comes out of each."""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError, TacitError
from bayes_tacit.router.rule import Call, State, reached_from, start_reached_from

if TYPE_CHECKING:
    from bayes_tacit.model.design import Design
    from bayes_tacit.router.log import DecisionLog
    from bayes_tacit.router.router import Router

Given = Mapping[str, float] | Sequence[float] | np.ndarray
"""Frozen by name, or in the router's order."""

OPENING = -1
"""The step of what is decided before the first one."""

NLL = "nll"
"""The name of the negative log-likelihood of Cheap's action, which a router may look at as at any diagnostic."""


class EpisodeEndedError(TacitError, RuntimeError):
    """Something was observed after the end of its episode."""


class Decision(NamedTuple):
    """The answer at one checkpoint; what makes no sense for a policy is None.

    Attributes
    ----------
    step
        The checkpoint, counted from 0; -1 for the decision before the first step.
    risk
        The risk that this checkpoint added, R(t) - R(t-1), which is w u(t) if nothing is forgotten; under a posterior,
        its mean.
    cumulative_risk
        R(t), likewise.
    pi
        The incidence; under a posterior, its mean.
    score
        What is compared with alpha: q(t), or under a posterior its mean or quantile; the score of another policy's
        rule. None where nothing is asked.
    lower, upper
        Ends of the central 90% of q(t) under the posterior; None for a point estimate.
    alpha
        The threshold in force at this step; None if none is ever reached.
    handoff
        Whether Strong is in control from here on. Always false in shadow mode.
    handoff_step
        The first checkpoint whose score reached alpha, None before it. In shadow mode, where the handoff would have
        been.
    call
        Who acts next: "cheap", "strong" to the end, "strong_once", or "restart", with Strong to the end of a task that
        begins anew. Always "cheap" in shadow mode.

    Examples
    --------
    >>> decision = Decision(3, 0.5, 2.0, 0.9, 0.42, None, None, 0.3, handoff=False, handoff_step=3)
    >>> decision.would_handoff
    True
    >>> decision.reason
    'score 0.42 reached alpha 0.3; shadow mode, so no handoff'
    """

    step: int
    risk: float | None
    cumulative_risk: float | None
    pi: float | None
    score: float | None
    lower: float | None
    upper: float | None
    alpha: float | None
    handoff: bool
    handoff_step: int | None
    call: Call = "cheap"

    @property
    def would_handoff(self) -> bool:
        """Whether the threshold was crossed, here or before; differs from `handoff` in shadow mode only."""
        return self.handoff_step is not None

    @property
    def reason(self) -> str:
        """The decision in a few words."""
        if self.handoff_step is None:
            return self._compared()
        shadow = "" if self.handoff else "; shadow mode, so no handoff"
        if self.handoff_step == self.step:
            return f"{self._compared()}{shadow}"
        when = "before the first step" if self.handoff_step == OPENING else f"at step {self.handoff_step}"
        return f"alpha was reached {when}{shadow}"

    def _compared(self) -> str:
        if self.score is None:
            return "decided without a score"
        if self.alpha is None:
            return f"score {self.score:.6g}, and no alpha to reach"
        reached = self.score >= (start_reached_from if self.step == OPENING else reached_from)(self.alpha)
        return f"score {self.score:.6g} {'reached' if reached else 'is below'} alpha {self.alpha:g}"


class Fields:
    """Reads numbers that are given by name or in order; names that nobody asks for are left out.

    A design makes features of raw values, where a formula or groups say how; what are features already, by name, is
    taken.
    """

    def __init__(self, kind: str, names: tuple[str, ...], *, nonnegative: bool, design: Design | None = None) -> None:
        self.kind = kind
        self.names = names
        self.design = design
        self.least = 0.0 if nonnegative else -sys.float_info.max
        self.expected = "a finite number >= 0" if nonnegative else "a finite number"

    def read(self, given: Given) -> tuple[float, ...]:
        """Return the numbers in order, or raise an `InvalidDataError` that says which one is wrong."""
        if hasattr(given, "keys"):
            given = dict(given)  # type: ignore[arg-type]
            if self.design is not None and not all(name in given for name in self.names):
                return self.design.row({name: given[name] for name in self.design.inputs if name in given})
            for name in self.names:
                if name not in given:
                    raise InvalidDataError(f"{self.kind}[{name!r}], which is missing")
            values: Sequence[object] = [given[name] for name in self.names]
        else:
            values = self._in_order(given)
        return tuple([self._number(value, name) for value, name in zip(values, self.names, strict=True)])

    def by_name(self, values: Sequence[float]) -> dict[str, float]:
        """Name numbers that are in order."""
        return dict(zip(self.names, values, strict=True))

    def _in_order(self, given: object) -> Sequence[object]:
        listed = ", ".join(self.names) or "none"
        if hasattr(given, "__array__"):
            given = np.asarray(given).tolist()
        if not isinstance(given, Sequence) or isinstance(given, str | bytes):
            expected = f"a mapping by name, or numbers in order: {listed}"
            raise InvalidDataError(expected, field=self.kind, value=given)
        if len(given) != len(self.names):
            raise InvalidDataError(f"{len(self.names)}: {listed}", field=f"number of {self.kind}", value=len(given))
        return given

    def _number(self, value: object, name: str) -> float:
        if type(value) is float and self.least <= value < math.inf:
            return value
        if isinstance(value, int | float | np.integer | np.floating | np.bool_):
            try:
                number = float(value)
            except OverflowError:
                number = math.inf
            if math.isfinite(number) and number >= self.least:
                return number
        shown = value.item() if isinstance(value, np.generic) else value
        raise InvalidDataError(self.expected, field=f"{self.kind}[{name!r}]", value=shown)


class HandoffState:
    """How far an episode has come; made by `Router.start` and `Router.restore`.

    A state belongs to one episode and to the thread that runs it. Many states can share a router.

    Attributes
    ----------
    router
        Whose decisions these are.
    episode
        Name of the episode, if it was given one.
    features
        The task's features, in the router's order.
    shadow
        Whether handoffs are recorded only.
    step
        The next checkpoint.
    handoff_step
        The checkpoint at which the score reached alpha, None before it; -1 for a handoff before the first step.
    opening
        What was decided before the first step; None for a router that decides nothing there.
    finished
        Whether the episode has ended.
    """

    def __init__(
        self, router: Router, features: tuple[float, ...], *, shadow: bool = False, episode: str | int | None = None
    ) -> None:
        self.router = router
        self.features = features
        self.shadow = shadow
        self.episode = episode
        self.step = 0
        self.handoff_step: int | None = None
        self.finished = False
        self.log: DecisionLog | None = None
        self._begun = self._state = router.rule.begin(np.array([features], dtype=float).reshape(1, -1))
        for name, array in self._begun.items():
            if not np.isfinite(array).all():
                expected = "features for which it is finite"
                value = float(array[~np.isfinite(array)][0])
                raise InvalidDataError(expected, episode=episode, field=f"{name} of the task", value=value)
        own = router.rule.thresholds(self._begun)
        self._own = None if own is None else float(own[0])
        self.opening = self._opened()

    def __repr__(self) -> str:
        name = "" if self.episode is None else f" of {self.episode!r}"
        parts = [f"{self.step} step{'' if self.step == 1 else 's'} observed"]
        if self.handoff_step is not None:
            when = "before the first step" if self.handoff_step == OPENING else f"at step {self.handoff_step}"
            parts.append(f"crossed {when}")
        parts += [word for word in ("finished", "shadow") if getattr(self, word)]
        return f"<HandoffState{name}: {', '.join(parts)}>"

    @property
    def handoff(self) -> bool:
        """Whether Strong is in control."""
        return self.handoff_step is not None and not self.shadow

    def observe(self, diagnostics: Given) -> Decision:
        """Add a checkpoint and decide.

        A handoff is permanent: later checkpoints may still be observed, and their risk is recorded, but they do not
        take it back. After an error the state is what it was before.

        Parameters
        ----------
        diagnostics
            The checkpoint's diagnostics by name, or as numbers in the router's order. Names that the router does not
            look at are left out.

        Raises
        ------
        InvalidDataError
            If one is missing, negative or not finite.
        EpisodeEndedError
            If the episode was finished.
        """
        if self.finished:
            place = f"step {self.step}" if self.episode is None else f"episode {self.episode!r}, step {self.step}"
            raise EpisodeEndedError(f"{place}: observed after finish(); expected a new episode, by Router.start")
        router, before = self.router, self._state
        try:
            values = router.diagnostics.read(diagnostics)
            state, score = router.rule.step(before, np.array([values], dtype=float))
            for name, array in state.items():
                if array is not before.get(name) and not np.isfinite(array).all():
                    expected = "diagnostics whose sum over the episode is finite"
                    raise InvalidDataError(expected, field=f"{name} so far", value=float(array[~np.isfinite(array)][0]))
        except InvalidDataError as error:
            raise error.at(f"step {self.step}", self.episode) from None
        own = self._own
        alpha = router.alpha_at(self.step) if own is None else None if own == math.inf else own
        decision, crossed = self._decide(self.step, float(score[0]), alpha, state, self.handoff_step)
        if self.log is not None:
            self.log.observed(self.episode, router.diagnostics.by_name(values), decision)
        self._state, self.handoff_step = state, crossed
        self.step += 1
        return decision

    def finish(self) -> Decision | None:
        """End the episode: from here on, observing is an error. Finishing twice changes nothing.

        Returns
        -------
        Decision or None
            What a policy says that judges the whole episode; None from all others.
        """
        if self.finished:
            return None
        closing, crossed = None, self.handoff_step
        if self.router.rule.closes and self.step:
            if crossed == self.step - 1 and self.router.timing == "post_action":
                # After the last action there was nothing to hand over.
                crossed = None
            if crossed is None:
                score = float(self.router.rule.closing(self._state)[0])
                alpha = None if self.router.too_late(self.step) else self.router.alpha_at(0)
                closing, crossed = self._decide(self.step - 1, score, alpha, self._state, crossed)
        if self.log is not None:
            self.log.finished(self.episode, closing)
        self.handoff_step = crossed
        self.finished = True
        return closing

    def snapshot(self) -> dict[str, object]:
        """Return all there is to know as plain JSON values, from which `Router.restore` goes on to the last bit."""
        kept = {
            name: array[0].tolist()
            for name, array in self._state.items()
            if not name.startswith("_") and array is not self._begun.get(name)
        }
        content: dict[str, object] = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "router": self.router.fingerprint,
            "features": list(self.features),
            "shadow": self.shadow,
            "episode": self.episode,
            "step": self.step,
            "state": kept,
            "handoff_step": self.handoff_step,
            "finished": self.finished,
        }
        return {**content, "checksum": _checksum(content)}

    def _opened(self) -> Decision | None:
        """Decide before the first step."""
        router = self.router
        score = None if router.alpha_start == math.inf else router.rule.opening(self._begun)
        if score is None:
            return None
        reached = float(score[0]) >= start_reached_from(router.alpha_start)
        self.handoff_step = OPENING if reached else None
        handoff = reached and not self.shadow
        # There is nothing yet that a restart would begin anew.
        call: Call = "strong" if handoff else "cheap"
        facts = _facts(router.rule.facts(self._begun))
        return Decision(
            OPENING, None, None, facts.get("pi"), float(score[0]), facts.get("lower"), facts.get("upper"),
            router.alpha_start, handoff, self.handoff_step, call,
        )  # fmt: skip

    def _decide(
        self, step: int, score: float, alpha: float | None, state: State, crossed: int | None
    ) -> tuple[Decision, int | None]:
        """Compare a score with its threshold, and say who acts next and where the handoff was."""
        router = self.router
        reached = alpha is not None and score >= reached_from(alpha)
        call: Call = "cheap"
        if router.call == "strong_once":
            call = "strong_once" if reached and crossed is None and not self.shadow else "cheap"
        elif crossed is None and reached:
            crossed = step
        handoff = crossed is not None and not self.shadow
        if handoff:
            call = "strong" if crossed == OPENING else router.call
        facts = _facts(router.rule.facts(state))
        decision = Decision(
            step, facts.get("risk"), facts.get("cumulative_risk"), facts.get("pi"),
            None if math.isnan(score) else score, facts.get("lower"), facts.get("upper"), alpha, handoff, crossed, call,
        )  # fmt: skip
        return decision, crossed

    @classmethod
    def restored(cls, router: Router, snapshot: object) -> HandoffState:
        """Go on where a snapshot was taken, checking all of it."""
        content = validate.record("", snapshot, KEYS)
        validate.choice("format", content["format"], (FORMAT,))
        if type(content["schema_version"]) is not int or content["schema_version"] != SCHEMA_VERSION:
            raise InvalidDataError(f"{SCHEMA_VERSION}", field="schema_version", value=content["schema_version"])
        if content["router"] != router.fingerprint:
            expected = f"{router.fingerprint!r}: the snapshot was taken under another router"
            raise InvalidDataError(expected, field="router", value=content["router"])
        n = len(router.feature_names)
        features = validate.finite("features", validate.numbers("features", content["features"], (n,)), (n,))
        episode = content["episode"]
        state = cls(
            router,
            tuple(features.tolist()),
            shadow=validate.flag("shadow", content["shadow"]),
            episode=None if episode is None else validate.episode_id("episode", episode),
        )
        state.step = validate.whole("step", content["step"], 0)
        handoff_step = content["handoff_step"]
        if handoff_step is not None:
            handoff_step = validate.whole("handoff_step", handoff_step, OPENING)
            if handoff_step >= state.step:
                expected = f"a step before {state.step}, the next one"
                raise InvalidDataError(expected, field="handoff_step", value=handoff_step)
        state.handoff_step = handoff_step
        state.finished = validate.flag("finished", content["finished"])
        if not isinstance(content["state"], Mapping):
            raise InvalidDataError("an object", field="state", value=content["state"])
        if content["checksum"] != _checksum({name: content[name] for name in KEYS[:-1]}):
            expected = "the digest of its content: the snapshot was changed after it was taken"
            raise InvalidDataError(expected, field="checksum", value=content["checksum"])
        for name, value in content["state"].items():
            if name not in state._begun:
                raise InvalidDataError(f"one of {', '.join(state._begun)}", field="a key of state", value=name)
            array = np.array([value], dtype=float)
            state._state = {**state._state, name: validate.finite(name, array, state._begun[name].shape)}
        return state


FORMAT = "bayes_tacit.handoff_state"
SCHEMA_VERSION = 1
KEYS = (
    *("format", "schema_version", "router", "features", "shadow", "episode", "step", "state", "handoff_step"),
    *("finished", "checksum"),
)


def _checksum(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _facts(facts: Mapping[str, np.ndarray]) -> dict[str, float]:
    return {name: float(values[0]) for name, values in facts.items()}
