"""How far an episode has come, as plain JSON values."""

from __future__ import annotations

import hashlib
import json
from typing import NamedTuple

from bayes_tacit import validate
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.router.decision import OPENING
from bayes_tacit.router.totals import Total

FORMAT = "bayes_tacit.handoff_state"
SCHEMA_VERSION = 1
HEADER = ("format", "schema_version", "router")


class Progress(NamedTuple):
    """All that an episode's decisions depend on, besides the router.

    Attributes
    ----------
    features
        The task's features, in the router's order.
    shadow
        Whether handoffs are recorded only.
    episode
        Its name, if it has one.
    step
        The next checkpoint.
    total
        What has accumulated: the cumulative risk under a point estimate, the cumulative diagnostics under a posterior;
        with a memory below 1 the leaky sums and their peaks, under a learned memory those of every draw; then the steps
        of a clock. None before the first checkpoint.
    handoff_step
        The checkpoint at which the score reached alpha, if it has; -1 for a handoff before the first step.
    finished
        Whether the episode has ended.
    """

    features: tuple[float, ...]
    shadow: bool = False
    episode: str | int | None = None
    step: int = 0
    total: Total | None = None
    handoff_step: int | None = None
    finished: bool = False


def write_snapshot(progress: Progress, router: str) -> dict[str, object]:
    """Give the progress under the router with this fingerprint as values that JSON has."""
    content: dict[str, object] = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "router": router,
        **progress._asdict(),
        "features": list(progress.features),
        "total": None if progress.total is None else list(progress.total),
    }
    return {**content, "checksum": _checksum(progress, router)}


def read_snapshot(snapshot: object, router: str, *, features: int, totals: int | None) -> Progress:
    """Read what `write_snapshot` gave for the same router, checking all of it.

    Parameters
    ----------
    snapshot
        The values.
    router
        The router's fingerprint.
    features, totals
        How many features it has, and how many numbers accumulate over an episode; None if that depends on the episode.
    """
    try:
        return _read(snapshot, router, features, totals)
    except InvalidDataError as error:
        raise InvalidDataError(
            error.expected, episode=error.episode, field=error.field, value=error.value, where="snapshot"
        ) from None


def _read(snapshot: object, router: str, features: int, totals: int | None) -> Progress:
    content = validate.record("", snapshot, (*HEADER, *Progress._fields, "checksum"))
    validate.choice("format", content["format"], (FORMAT,))
    if type(content["schema_version"]) is not int or content["schema_version"] != SCHEMA_VERSION:
        raise InvalidDataError(f"{SCHEMA_VERSION}", field="schema_version", value=content["schema_version"])
    if content["router"] != router:
        expected = f"{router!r}: the snapshot was taken under another router"
        raise InvalidDataError(expected, field="router", value=content["router"])
    step = validate.whole("step", content["step"], 0)
    handoff_step = None
    if content["handoff_step"] is not None:
        handoff_step = validate.whole("handoff_step", content["handoff_step"], OPENING)
    if handoff_step is not None and handoff_step >= step:
        raise InvalidDataError(f"a step before {step}, the next one", field="handoff_step", value=handoff_step)
    progress = Progress(
        features=_numbers("features", content["features"], features),
        shadow=validate.flag("shadow", content["shadow"]),
        episode=None if content["episode"] is None else validate.episode_id("episode", content["episode"]),
        step=step,
        total=_total(content["total"], totals),
        handoff_step=handoff_step,
        finished=validate.flag("finished", content["finished"]),
    )
    if content["checksum"] != _checksum(progress, router):
        expected = "the digest of its content: the snapshot was changed after it was taken"
        raise InvalidDataError(expected, field="checksum", value=content["checksum"])
    return progress


def _numbers(name: str, value: object, length: int) -> tuple[float, ...]:
    array = validate.numbers(name, value, (length,))
    return tuple(validate.finite(name, array, (length,)).tolist())


def _total(value: object, length: int | None) -> Total | None:
    if value is None:
        return None
    if length is None:
        length = max(1, len(value)) if isinstance(value, list) else 1
    total = _numbers("total", value, length)
    if min(total) < 0:
        raise InvalidDataError("numbers >= 0", field="total", value=value)
    return total


def _checksum(progress: Progress, router: str) -> str:
    text = json.dumps([FORMAT, SCHEMA_VERSION, router, *progress])
    return hashlib.sha256(text.encode()).hexdigest()
