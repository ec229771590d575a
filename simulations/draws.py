"""Random numbers that depend on the seed, the game and the step alone, so that any episode can be taken up anywhere."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from bayes_tacit.agents.protocols import History


def uniforms(seed: int, history: History, count: int, purpose: str, step: int | None = None) -> np.ndarray:
    """Return numbers in [0, 1) for a step of a game: the next one, or an earlier one."""
    return _drawn(
        seed, _key(f"{purpose}|{history.task}|{history.first.text}"), len(history) if step is None else step, count
    )


@lru_cache(maxsize=4096)
def _key(text: str) -> int:
    return zlib.crc32(text.encode("utf-8"))


@lru_cache(maxsize=65536)
def _drawn(seed: int, key: int, step: int, count: int) -> np.ndarray:
    values = np.random.default_rng([seed, key, step]).random(count)
    values.flags.writeable = False
    return values


def pick(chances: Mapping[str, float], draw: float) -> tuple[str, float]:
    """Pick one by a number in [0, 1); give it with its probability.

    Examples
    --------
    >>> pick({"look": 0.25, "inventory": 0.75}, 0.3)
    ('inventory', 0.75)
    """
    total = 0.0
    for name, chance in chances.items():
        total += chance
        if draw < total:
            return name, chance
    return name, chance
