"""Learning a reader: ridge logistic regressions on hashed words, cross-fitted by task.

The design is never formed. The sums over all turns so far are cumulative sums of what each turn adds, so a product with
it costs as much as the turns have words, however long the rollouts are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.logs.reader import MOST, WIDTH, Places, Reader, Script, chance, numbers_of

FOLDS, MANY = (10, 5), 200
"""Parts that are left out in turn, with fewer tasks than `MANY` and with more."""

FEWEST = 30
"""Tasks below which nothing is learned from words."""

STRENGTH = 5.0
"""Prior variance of the weights: one for both sides, since the difference of the two chances decides."""

MOST_WORDS = 30_000_000
"""Words, counted once a turn, of the rollouts that a reader is learned from; it reads the others all the same."""

_NUMBERS, _INTERCEPT = 0.3, 3.0  # scale of numbers and of the constant beside words, whose rows have length 1
_STEPS = 60  # of the optimizer: more changes no decision


@dataclass(frozen=True, eq=False)
class Learned:
    """A reader, and what it says of the rollouts that it was learned from, each read without its task.

    Log-odds of Cheap and Strong before the first step and after each, (n_steps + 1, 2) by rollout, and by how much they
    lower the log loss of each side's success, in shares of that of the mean.
    """

    reader: Reader
    odds: list[np.ndarray]
    gains: tuple[float, float]


def learn(
    scripts: Sequence[Script], cheap: np.ndarray, strong: np.ndarray, groups: Sequence[object], *, seed: int = 0
) -> Learned:
    """Learn a reader from rollouts of Cheap, and read each rollout by one that never saw its group.

    Parameters
    ----------
    scripts
        The words.
    cheap, strong
        How each side did on the task: 0, 1, the share of several rollouts, or NaN where it was not played.
    groups
        Of what kind each rollout is: those of one task, or of tasks that are alike, stay together.
    seed
        Draws which groups are left out together.
    """
    design = Design.of(scripts)
    names = {name: number for number, name in enumerate(dict.fromkeys(groups))}
    order = np.random.default_rng(seed).permutation(len(names))
    fold = order[[names[name] for name in groups]] % min(FOLDS[len(names) > MANY], len(names))
    with threadpool_limits(1):  # the arrays are small: threads cost more than they do
        fits = [_fit(design, np.asarray(outcome, float), fold) for outcome in (cheap, strong)]
    weights = np.array([weights for weights, *_ in fits])
    reader = Reader.blank(design.width)
    n = design.numbers.shape[1]
    # As a file holds them, so that a reader that was saved says the same.
    halves = {"rarity": np.stack(design.rarity), "words": weights[:, n:].reshape(2, 3, design.width)}
    reader = replace(
        reader,
        **{name: values.astype(np.float16).astype(float) for name, values in halves.items()},
        centre=design.centre,
        scale=design.scale,
        numbers=np.column_stack([weights[:, 0] * _INTERCEPT, weights[:, 1:n] * _NUMBERS]),
        tasks=len(names),
    )
    odds = np.column_stack([held for _, held, _ in fits])
    return Learned(reader, np.split(odds, design.first[1:]), (fits[0][2], fits[1][2]))


@dataclass(frozen=True, eq=False)
class Design:
    """All checkpoints of all rollouts, those before the first step included, and what stands for each.

    Words of each rollout's prompt and of each turn are rows of length 1, `numbers` a constant and the standardized
    numbers; `rollout` and `step` are of each checkpoint, `first` the first checkpoint of each rollout.
    """

    prompts: csr_array
    turns: csr_array
    rarity: tuple[np.ndarray, np.ndarray]
    numbers: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    rollout: np.ndarray
    step: np.ndarray
    first: np.ndarray

    @classmethod
    def of(cls, scripts: Sequence[Script], width: int = WIDTH) -> Design:
        """Put rollouts together."""
        raw = []
        for script in scripts:
            so_far = np.zeros(len(FLAGS), dtype=int)
            raw.append(numbers_of(script.length, 0, so_far.tolist(), None))
            for step, turn in enumerate(script.turns, start=1):
                so_far += [turn.flags >> bit & 1 for bit in range(len(FLAGS))]
                raw.append(numbers_of(script.length, step, so_far.tolist(), turn))
        values = np.array(raw)
        centre, scale = values.mean(axis=0), values.std(axis=0)
        scale[scale == 0] = 1.0
        standard = np.clip((values - centre) / scale, -MOST, MOST)
        lengths = np.array([len(script.turns) + 1 for script in scripts])
        first = np.cumsum(lengths) - lengths
        prompts, rare_prompts = _rows([script.prompt for script in scripts], width)
        turns, rare_turns = _rows([turn.words for script in scripts for turn in script.turns], width)
        return cls(
            prompts,
            turns,
            (rare_prompts, rare_turns),
            np.column_stack([np.full(len(values), _INTERCEPT), _NUMBERS * standard]),
            centre,
            scale,
            np.repeat(np.arange(len(scripts)), lengths),
            np.arange(len(values)) - np.repeat(first, lengths),
            first,
        )

    @property
    def width(self) -> int:
        """Number of places."""
        return self.prompts.shape[1]

    def times(self, weights: np.ndarray) -> np.ndarray:
        """Return the design times weights."""
        n, later = self.numbers.shape[1], self.step > 0
        prompt, latest, prefix = weights[n:].reshape(3, self.width)
        out = self.numbers @ weights[:n] + (self.prompts @ prompt)[self.rollout]
        added = np.zeros((2, len(out)))
        added[:, later] = (self.turns @ np.column_stack([latest, prefix])).T
        sums = np.cumsum(added[1])
        sums -= sums[self.first][self.rollout]
        return out + added[0] + sums / np.sqrt(np.maximum(self.step, 1))

    def transposed_times(self, values: np.ndarray) -> np.ndarray:
        """Return the transposed design times a value for each checkpoint."""
        later = self.step > 0
        scaled = values / np.sqrt(np.maximum(self.step, 1))
        after = np.cumsum(scaled[::-1])[::-1]
        ends = np.append(after, 0.0)[np.append(self.first[1:], len(values))]
        both = np.column_stack([values, after - ends[self.rollout]])[later]
        words = self.turns.T @ both
        prompt = self.prompts.T @ np.bincount(self.rollout, values, self.prompts.shape[0])
        return np.concatenate([self.numbers.T @ values, prompt, words[:, 0], words[:, 1]])


def _rows(words: Sequence[Places], width: int) -> tuple[csr_array, np.ndarray]:
    """Return texts as rows of length 1, and how rare each place is: the logarithm of the share of texts without it."""
    counts = np.array([len(places) for places, _ in words], dtype=np.int64)
    places = np.concatenate([np.zeros(0, np.int64), *(places for places, _ in words)])
    hits = np.concatenate([np.zeros(0), *(hits for _, hits in words)])
    rarity = np.log((1 + len(words)) / (1 + np.bincount(places, minlength=width))) + 1
    values = np.sign(hits) * np.sqrt(np.abs(hits)) * rarity[places]
    row = np.repeat(np.arange(len(words)), counts)
    length = np.sqrt(np.bincount(row, values**2, len(words)))
    values /= length[row]
    starts = np.concatenate([[0], np.cumsum(counts)])
    return csr_array((values, places, starts), shape=(len(words), width)), rarity


def _fit(design: Design, outcome: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return weights for one outcome, log-odds of checkpoints by weights that did not see their fold, and their gain.

    What is over- or underconfident in those is taken off by a logistic regression on the log-odds themselves (Platt).
    """
    known = ~np.isnan(outcome)[design.rollout]
    target = np.where(known, outcome[design.rollout], 0.5)
    weight = known / np.bincount(design.rollout)[design.rollout]
    left_out = fold[design.rollout]
    weights = _minimum(design, target, weight, np.zeros(design.numbers.shape[1] + 3 * design.width))
    odds = np.empty(len(target))
    for one in np.unique(fold):
        out = left_out == one
        odds[out] = design.times(_minimum(design, target, weight * ~out, weights))[out]
    shift, slope = _calibration(odds, target, weight)
    weights = weights * slope
    weights[0] += shift / _INTERCEPT
    odds = shift + slope * odds
    mean = (weight @ target) / weight.sum()
    spread = -(mean * np.log(mean) + (1 - mean) * np.log1p(-mean)) * weight.sum() if 0 < mean < 1 else np.inf
    return weights, odds, float(1 - weight @ (np.logaddexp(0, odds) - target * odds) / spread)


def _minimum(design: Design, target: np.ndarray, weight: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the penalized maximum likelihood estimate."""

    def loss(weights: np.ndarray) -> tuple[float, np.ndarray]:
        odds = design.times(weights)
        value = weight @ (np.logaddexp(0, odds) - target * odds) + weights @ weights / (2 * STRENGTH)
        return float(value), design.transposed_times(weight * (chance(odds) - target)) + weights / STRENGTH

    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _STEPS, "ftol": 1e-7})
    return np.asarray(found.x)


def _calibration(odds: np.ndarray, target: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return the shift and the slope that make log-odds likeliest, the slope drawn to 1 by as much as one task says."""
    design = np.column_stack([np.ones(len(odds)), odds])
    centre, precision = np.array([0.0, 1.0]), np.array([1e-6, 1.0])
    found = centre.copy()
    for _ in range(15):
        p = chance(design @ found)
        slope = design.T @ (weight * (target - p)) - precision * (found - centre)
        curvature = (design * (weight * p * (1 - p))[:, None]).T @ design + np.diag(precision)
        found = found + np.linalg.solve(curvature, slope)
    return float(found[0]), float(max(found[1], 0.0))
