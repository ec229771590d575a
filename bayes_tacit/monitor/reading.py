"""From the lines of a log to what each session came to, and to counts for drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.monitor.drift import Counts, Drift, Kind, drift_of
from bayes_tacit.monitor.lines import Event, Lines
from bayes_tacit.monitor.records import Record, Records
from bayes_tacit.router import PolicyRouter, Router
from bayes_tacit.router.ranges import Ranges

ERRORS = 400
"""Status from which on an answer is an error."""


@dataclass
class Training:
    """Counts of what sessions of one router had, beside its training quantiles.

    Attributes
    ----------
    router
        Whose sessions count.
    ranges
        Its training quantiles; by default those that it carries.
    features, diagnostics
        Counts by name.
    feature_sessions, diagnostic_sessions
        How many sessions had some.
    """

    router: Router | PolicyRouter
    ranges: Ranges | None = None
    features: dict[str, Counts] = field(default_factory=dict)
    diagnostics: dict[str, Counts] = field(default_factory=dict)
    feature_sessions: int = 0
    diagnostic_sessions: int = 0

    def __post_init__(self) -> None:
        """Take the quantiles from the router."""
        ranges = self.router.ranges if self.ranges is None else self.ranges
        if ranges is None:
            raise InvalidDataError(
                "a router with the quantiles of its training data, as recommend writes it, or the training episodes",
                field="ranges of the router",
                value=None,
            )
        self.features = {name: Counts(levels) for name, levels in ranges.features.items()}
        self.diagnostics = {name: Counts(levels) for name, levels in ranges.diagnostics.items()}
        self.fingerprint = self.router.fingerprint

    def add(self, kind: Kind, values: Mapping[str, float]) -> None:
        """Count the values of one session or step."""
        counts = self.features if kind == "feature" else self.diagnostics
        for name, value in values.items():
            if name in counts:
                counts[name].add(value)

    def drifts(self) -> list[Drift]:
        """Compare each with training."""
        names = len(self.features) + len(self.diagnostics)
        return [
            *(drift_of("feature", name, one, self.feature_sessions, names) for name, one in self.features.items()),
            *(
                drift_of("diagnostic", name, one, self.diagnostic_sessions, names)
                for name, one in self.diagnostics.items()
            ),
        ]


def read_into(records: Records, lines: Lines, training: Training | None) -> dict[str, str]:
    """Read all lines; give what routers there were, by fingerprint, in words."""
    routers: dict[str, str] = {}
    for event in lines:
        record = records.of(event.scope, event.session)
        record.first = min(record.first, event.time) if record.last else event.time
        record.last = max(record.last, event.time)
        if event.kind == "session":
            _began(record, event, routers, training)
        elif event.kind == "step":
            _decided(record, event, training)
        elif event.kind == "reply":
            _replied(record, event)
        elif event.kind == "outcome":
            _ended(record, event)
        elif event.flag("new_handoff"):
            record.handed = 1
            closing = event.inner("closing")
            if closing is not None:
                _scored(record, closing)
    records.flush()
    return routers


def _began(record: Record, event: Event, routers: dict[str, str], training: Training | None) -> None:
    record.task = event.text("task")
    for name in ("router", "shadow"):
        settings = event.inner(name)
        fingerprint = None if settings is None else settings.text("router")
        setattr(record, name, fingerprint)
        if settings is not None and fingerprint is not None and fingerprint not in routers:
            shown = {key: settings.content.get(key) for key in ("policy", "alpha", "rule", "handoff")}
            words = ", ".join(f"{key} {value}" for key, value in shown.items() if value is not None)
            routers[fingerprint] = words if name == "router" else f"{words}, in shadow"
    if training is not None and record.router == training.fingerprint:
        features = event.numbers("features")
        training.add("feature", features)
        training.feature_sessions += bool(features.keys() & training.features.keys())


def _decided(record: Record, event: Event, training: Training | None) -> None:
    step = event.count("step")
    latched, new = event.flag("latched"), event.flag("new_handoff")
    record.requests += 1
    record.steps = max(record.steps, step)
    record.faults += event.text("fault") is not None
    record.missing += bool(event.content.get("missing"))
    decision, shadow = event.inner("decision"), event.inner("shadow")
    if decision is not None and not (latched and not new):
        _scored(record, decision)
    if new or not latched:
        record.why = event.text("why") or ""
    record.handed = int(record.handed or latched)
    if shadow is not None and record.shadow_step is None and shadow.content.get("handoff_step") is not None:
        record.shadow_step = int(shadow.number("handoff_step") or 0)
    # What a request shows is the step before it; once, though it may be sent again, and only if Cheap made it.
    last = step - 1
    if training is None or record.router != training.fingerprint or (latched and not new):
        return
    if last > record.counted and last != record.by_strong:
        values = event.numbers("diagnostics")
        training.add("diagnostic", values)
        training.diagnostic_sessions += record.counted < 0 and bool(values)
        record.counted = last


def _scored(record: Record, decision: Event) -> None:
    record.score, record.pi = decision.number("score"), decision.number("pi")
    if decision.content.get("handoff_step") is not None:
        record.handoff_step = int(decision.number("handoff_step") or 0)


def _replied(record: Record, event: Event) -> None:
    side = event.text("side")
    if side not in ("cheap", "strong"):
        raise event.wrong("side", "'cheap' or 'strong'")
    failed = event.count("status") >= ERRORS
    record.errors += failed
    record.fallbacks += not failed and event.text("fault") is not None
    if failed:
        return
    record.cost += event.number("cost") or 0.0
    record.strong_cost += event.number("strong_cost") or 0.0
    if side == "strong":
        record.strong_calls += 1
        record.by_strong = event.count("turn")
    else:
        record.cheap_calls += 1


def _ended(record: Record, event: Event) -> None:
    if event.content.get("success") is not None:
        record.success = int(event.flag("success"))
    record.task = event.text("task") or record.task
