"""Which episodes go to which part of a split: positions only, so that it can be tested without any data."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from bayes_tacit.data.episodes.conversions import Array, plain
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.validate import number

_TOLERANCE = 1e-9


def split_by_fraction(
    fractions: Mapping[str, float],
    n: int,
    rng: np.random.Generator,
    *,
    groups: Array | None = None,
    strata: Array | None = None,
) -> dict[str, Array]:
    """Draw parts of the given sizes out of `n` episodes, without replacement.

    Parameters
    ----------
    fractions
        Share of the episodes for each part. They sum to at most 1; what is left over is in no part.
    n
        Number of episodes.
    rng
        Decides who goes where.
    groups
        A label for each episode. Episodes with the same label stay together, so that sizes are met as closely as
        whole groups allow.
    strata
        A label for each episode. The shares are met within each label.

    Returns
    -------
    dict
        Positions of the episodes of each part, in increasing order.

    Examples
    --------
    >>> parts = split_by_fraction({"train": 0.6, "test": 0.4}, 5, np.random.default_rng(0))
    >>> {name: len(positions) for name, positions in parts.items()}
    {'train': 3, 'test': 2}
    """
    shares = _check_fractions(fractions)
    if groups is not None:
        owner = _owners_by_group(shares, groups, rng)
    else:
        owner = np.full(n, len(shares))
        for members in _members(np.zeros(n, dtype=int) if strata is None else strata):
            sizes = largest_remainder(shares, len(members))
            labels = np.repeat(np.arange(len(shares)), sizes)
            owner[rng.permutation(members)[: len(labels)]] = labels
    parts = {name: np.flatnonzero(owner == part) for part, name in enumerate(fractions)}
    for name, positions in parts.items():
        if not positions.size:
            of_what = f"{n} episodes" if groups is None else f"{len(_members(groups))} groups"
            expected = f"a share of {of_what} that gives every part at least one"
            raise InvalidDataError(expected, field=f"part {name!r}", value=fractions[name])
    return parts


def largest_remainder(shares: Array, n: int) -> Array:
    """Round `shares * n` to whole numbers that add up, giving the units left over to the largest remainders.

    Examples
    --------
    >>> largest_remainder(np.array([0.7, 0.1, 0.2]), 9).tolist()
    [6, 1, 2]
    """
    quotas = shares * n
    sizes = np.floor(quotas + _TOLERANCE).astype(int)
    left = round(float(quotas.sum())) - int(sizes.sum())
    sizes[np.argsort(sizes - quotas, kind="stable")[: max(left, 0)]] += 1
    return sizes


def check_disjoint(parts: Mapping[str, Array], ids: Array, labels: Array, what: str) -> None:
    """Refuse parts that are empty, or that share a label; `what` says what the labels are."""
    owner: dict[int, str] = {}
    codes = pd.factorize(labels, use_na_sentinel=False)[0]
    for name, positions in parts.items():
        if not len(positions):
            raise InvalidDataError("at least one episode in every part", field=f"part {name!r}", value=[])
        for position in positions:
            first = owner.setdefault(int(codes[position]), name)
            if first != name:
                raise InvalidDataError(
                    f"parts that share no {what}",
                    episode=plain(ids[position]),
                    field=what,
                    value=plain(labels[position]),
                    where=f"in both {first!r} and {name!r}",
                )


def _check_fractions(fractions: Mapping[str, float]) -> Array:
    expected = "a share above 0 and at most 1"
    shares = np.array([number(f"part {name!r}", share, expected, above=0, most=1) for name, share in fractions.items()])
    if shares.sum() > 1 + _TOLERANCE:
        raise InvalidDataError("shares that sum to at most 1", field="sum of the shares", value=float(shares.sum()))
    return shares


def _members(labels: Array) -> list[Array]:
    codes, uniques = pd.factorize(labels, use_na_sentinel=False)
    return [np.flatnonzero(codes == code) for code in range(len(uniques))]


def _owners_by_group(shares: Array, groups: Array, rng: np.random.Generator) -> Array:
    """Hand out whole groups, large ones first and equal ones in random order, each to the part that lacks most."""
    members = _members(groups)
    targets = np.append(shares, max(0.0, 1.0 - float(shares.sum()))) * len(groups)
    owner = np.empty(len(groups), dtype=int)
    shuffled = rng.permutation(len(members))
    for group in sorted(shuffled, key=lambda group: -len(members[group])):
        part = int(targets.argmax())
        owner[members[group]] = part
        targets[part] -= len(members[group])
    return owner
