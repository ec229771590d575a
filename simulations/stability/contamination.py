"""How far estimates move when some episodes are replaced: designs, losses, contamination."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from scipy import special, stats

from bayes_tacit import Episodes
from simulations.model_based import TRUTH, incidence, location, quietly

TRUE_W = (0.6, 0.4)
PARAMETERS = ("gamma0", "gamma1", "gamma2", "gamma3", "logit w", "beta0", "beta1", "beta2", "beta3", "log s")
TARGET = np.array(
    [TRUTH.gamma0, *TRUTH.gamma, np.log(TRUE_W[0] / TRUE_W[1]), TRUTH.beta0, *TRUTH.beta, np.log(TRUTH.s)]
)
"""The clean population's minimizer: without a penalty and with the model true, it is the truth."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Drawn tasks with their clean marks."""

    x: np.ndarray  # Features, (episode, feature)
    totals: np.ndarray  # Each diagnostic summed up to every step, (episode, step, diagnostic)
    strong: np.ndarray  # B
    mark: np.ndarray  # Step of the crossing; the horizon where there is none
    alone: np.ndarray  # Whether Cheap succeeds where Strong fails

    @property
    def horizon(self) -> int:
        """Steps of a rollout."""
        return int(self.totals.shape[1])

    @property
    def timed(self) -> np.ndarray:
        """Positions of the episodes with a teacher's interval."""
        return np.flatnonzero(self.strong & (self.mark < self.horizon))

    def take(self, rows: np.ndarray) -> Sample:
        """Return some of them, some perhaps more than once."""
        return Sample(*(getattr(self, name)[rows] for name in ("x", "totals", "strong", "mark", "alone")))

    def episodes(self, mark: np.ndarray | None = None) -> Episodes:
        """Return them as a fit takes them, with other marks if some are given."""
        marked = self.mark if mark is None else mark
        crossed = self.mark < self.horizon
        window = np.where(self.strong & crossed, marked, np.nan)
        n, d = len(self.x), self.totals.shape[2]
        return quietly(
            xr.Dataset(
                {
                    "features": (("episode", "feature"), self.x),
                    "diagnostics": (
                        ("episode", "step", "diagnostic"),
                        np.diff(self.totals, axis=1, prepend=np.zeros((n, 1, d))),
                    ),
                    "n_steps": ("episode", np.full(n, self.horizon)),
                    "cheap_success": ("episode", np.where(self.strong, ~crossed, self.alone)),
                    "strong_success": ("episode", self.strong),
                    "window_start": ("episode", window),
                    "window_end": ("episode", window),
                },
                coords={
                    "episode": np.arange(n),
                    "step": np.arange(self.horizon),
                    "feature": [f"x{j + 1}" for j in range(self.x.shape[1])],
                    "diagnostic": [f"risk{j + 1}" for j in range(d)],
                },
            )
        )


def draw(n: int, rng: np.random.Generator) -> Sample:
    """Draw n tasks.

    The risk of a step is divided between two diagnostics at random, so that the weights `TRUE_W` give it back.
    """
    bound = np.sqrt(3)
    x = rng.uniform(-bound, bound, size=(n, len(TRUTH.gamma)))
    risk = stats.gamma(TRUTH.shape, scale=TRUTH.scale).ppf(rng.uniform(0.01, 0.99, size=(n, TRUTH.horizon)))
    first = rng.uniform(0.1, 0.9, size=risk.shape)
    diagnostics = np.stack([risk * first / TRUE_W[0], risk * (1 - first) / TRUE_W[1]], axis=2)
    strong = rng.random(n) < incidence(TRUTH, x)
    kappa = np.exp(location(TRUTH, x) + TRUTH.s * rng.normal(size=n))
    mark = (np.cumsum(risk, axis=1) < kappa[:, None]).sum(axis=1)
    alone = rng.random(n) < special.expit(TRUTH.cheap_alone)
    return Sample(x, np.cumsum(diagnostics, axis=1), strong, mark, alone)


SIZE = 10
GAMMA, ETA, BETA, LOG_S = slice(0, 4), 4, slice(5, 9), 9


@dataclass(frozen=True, eq=False)
class Records:
    """What the loss needs of each record."""

    design: np.ndarray  # A one and the features, (record, 4)
    strong: np.ndarray  # B
    # lower, upper: Summed diagnostics at the bounds of the threshold, (record, 2); no matter where there is no such
    # bound.
    lower: np.ndarray
    upper: np.ndarray
    # below, above: Whether there is a lower and an upper bound.
    below: np.ndarray
    above: np.ndarray

    @classmethod
    def of(cls, sample: Sample, start: np.ndarray, end: np.ndarray, strong: np.ndarray | None = None) -> Records:
        """Read a sample whose marked episodes have the windows from `start` to `end`.

        Other outcomes of Strong can be given: AB = 00 made 01 has no window, AB = 10 made 11 is censored.
        """
        outcome = sample.strong if strong is None else strong
        crossed = sample.mark < sample.horizon
        cheap = np.where(sample.strong, ~crossed, sample.alone)
        marked = outcome & sample.strong & crossed
        censored = outcome & cheap
        rows = np.arange(len(outcome))
        first = np.where(marked, start, 0).astype(int)
        last = np.where(marked, end, sample.horizon - 1).astype(int)
        before = np.where(censored, sample.horizon - 1, first - 1)
        return cls(
            design=np.column_stack([np.ones(len(outcome)), sample.x]),
            strong=outcome,
            lower=sample.totals[rows, np.maximum(before, 0)],
            upper=sample.totals[rows, last],
            below=censored | (marked & (first > 0)),
            above=marked,
        )

    def take(self, rows: np.ndarray) -> Records:
        """Return some of them."""
        return Records(
            *(getattr(self, name)[rows] for name in ("design", "strong", "lower", "upper", "below", "above"))
        )


def gradients(point: np.ndarray, records: Records) -> np.ndarray:
    """Return the gradient of each record's loss, (record, parameter)."""
    return _derivatives(point, records, hessians=False)[0]


def hessians(point: np.ndarray, records: Records) -> np.ndarray:
    """Return the Hessian of each record's loss, (record, parameter, parameter)."""
    return _derivatives(point, records, hessians=True)[1]


def losses(point: np.ndarray, records: Records) -> np.ndarray:
    """Return the negative log-likelihood of each record."""
    sign = np.where(records.strong, 1.0, -1.0)
    return np.asarray(-special.log_expit(sign * (records.design @ point[GAMMA])) - _log_mass(point, records))


def scores(point: np.ndarray, design: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return q of every record and step; `totals` is (record, step, 2)."""
    z = _standardized(point, design[:, None, :], totals)
    return np.asarray(special.expit(design @ point[GAMMA])[:, None] * special.ndtr(z))


def score_gradients(point: np.ndarray, design: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the gradient of q of every record and step, (record, step, parameter)."""
    wide = np.broadcast_to(design[:, None, :], (*totals.shape[:2], design.shape[1]))
    z = _standardized(point, wide, totals)
    pi = special.expit(design @ point[GAMMA])[:, None]
    found = (pi * _density(z))[..., None] * _jacobian(point, wide, totals, z)
    found[..., GAMMA] = (pi * (1 - pi) * special.ndtr(z))[..., None] * wide
    return found


def _standardized(point: np.ndarray, design: np.ndarray, totals: np.ndarray) -> np.ndarray:
    w = special.expit(point[ETA])
    risk = totals @ np.array([w, 1 - w])
    return np.asarray((np.log(risk) - design @ point[BETA]) / np.exp(point[LOG_S]))


def _density(z: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi))


def _pull(point: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """Return the derivative of log R in eta."""
    w = special.expit(point[ETA])
    return np.asarray(w * (1 - w) * (totals[..., 0] - totals[..., 1]) / (totals @ np.array([w, 1 - w])))


def _jacobian(point: np.ndarray, design: np.ndarray, totals: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the first derivatives of z."""
    s = np.exp(point[LOG_S])
    found = np.zeros((*z.shape, SIZE))
    found[..., ETA] = _pull(point, totals) / s
    found[..., BETA] = -design / s
    found[..., LOG_S] = -z
    return found


def _curvature(point: np.ndarray, design: np.ndarray, totals: np.ndarray, z: np.ndarray) -> np.ndarray:
    """Return the second derivatives of z."""
    s, w = np.exp(point[LOG_S]), special.expit(point[ETA])
    pull = _pull(point, totals)
    found = np.zeros((*z.shape, SIZE, SIZE))
    found[..., ETA, ETA] = (pull * (1 - 2 * w) - pull**2) / s
    found[..., ETA, LOG_S] = found[..., LOG_S, ETA] = -pull / s
    found[..., BETA, LOG_S] = found[..., LOG_S, BETA] = design / s
    found[..., LOG_S, LOG_S] = z
    return found


def _bounds(point: np.ndarray, records: Records) -> tuple[np.ndarray, np.ndarray]:
    lower = np.where(records.below, _standardized(point, records.design, records.lower), -np.inf)
    upper = np.where(records.above, _standardized(point, records.design, records.upper), np.inf)
    return lower, upper


def _log_mass(point: np.ndarray, records: Records) -> np.ndarray:
    """Return log(Phi(upper) - Phi(lower)), from the tail in which the interval lies."""
    lower, upper = _bounds(point, records)
    with np.errstate(invalid="ignore"):
        right = lower + upper > 0
    low, high = np.where(right, -upper, lower), np.where(right, -lower, upper)
    top, bottom = special.log_ndtr(high), special.log_ndtr(low)
    return np.asarray(top + np.log1p(-np.exp(bottom - top)))


def _derivatives(point: np.ndarray, records: Records, *, hessians: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return gradients and, if asked for, Hessians, by the chain rule through both standardized bounds.

    With u = f(z_upper) / mass and l = f(z_lower) / mass the log mass has first derivatives u and -l, and second ones
    -z_upper u - u^2, z_lower l - l^2 and (mixed) u l.
    """
    n = len(records.design)
    probability = special.expit(records.design @ point[GAMMA])
    gradient = np.zeros((n, SIZE))
    gradient[:, GAMMA] = (probability - records.strong)[:, None] * records.design
    hessian = np.zeros((n, SIZE, SIZE) if hessians else (0, SIZE, SIZE))
    if hessians:
        weight = probability * (1 - probability)
        hessian[:, GAMMA, GAMMA] = weight[:, None, None] * records.design[:, :, None] * records.design[:, None, :]
    mass = np.exp(_log_mass(point, records))
    sides: list[tuple[np.ndarray, np.ndarray]] = []
    for z, has, totals, sign in zip(
        _bounds(point, records),
        (records.below, records.above),
        (records.lower, records.upper),
        (-1.0, 1.0),
        strict=True,
    ):
        at = np.where(has, z, 0.0)
        rate = np.where(has, _density(at) / mass, 0.0)
        jacobian = _jacobian(point, records.design, totals, at)
        gradient -= sign * rate[:, None] * jacobian
        sides.append((rate, jacobian))
        if hessians:
            second = (-sign * at * rate - rate**2)[:, None, None] * jacobian[:, :, None] * jacobian[:, None, :]
            second += sign * rate[:, None, None] * _curvature(point, records.design, totals, at)
            hessian -= second
    if hessians:
        (low, low_jacobian), (high, high_jacobian) = sides
        mixed = (low * high)[:, None, None] * low_jacobian[:, :, None] * high_jacobian[:, None, :]
        hessian -= mixed + mixed.transpose(0, 2, 1)
    return gradient, hessian


WRONG_MARKS = {
    "neighbour": "moved to a neighbouring step",
    "anywhere": "moved to any other step",
    "too late": "moved to the last step",
    "worst": "chosen, and moved, so that together they push the estimate as far as can be, to first order",
}
WRONG_OUTCOMES = "outcomes"
"""Strong's outcomes flipped instead of marks moved."""
AIMED_RATE = 0.1
"""The share of wrong marks at which the worst ones push farthest."""


@dataclass(frozen=True, eq=False)
class Contamination:
    """Who is wrong, and how."""

    sample: Sample  # The clean tasks
    # By kind, the wrong mark of every episode; where it equals the clean one, there is no wrong one.
    marks: Mapping[str, np.ndarray]
    # By kind, positions of the episodes with a wrong mark, in the order in which they become wrong.
    order: Mapping[str, np.ndarray]
    flips: np.ndarray  # Positions of all episodes, in the order in which outcomes are flipped

    @classmethod
    def draw(cls, sample: Sample, direction: np.ndarray, rng: np.random.Generator) -> Contamination:
        """Draw it; the worst marks push the gradient along `direction`, all the same way."""
        timed = rng.permutation(sample.timed)
        last = sample.horizon - 1
        neighbour, anywhere, late = (sample.mark.copy() for _ in range(3))
        later = rng.random(len(timed)) < 0.5
        at = sample.mark[timed]
        neighbour[timed] = at + np.where((later | (at == 0)) & (at != last), 1, -1)
        other = rng.integers(0, last, len(timed))
        anywhere[timed] = other + (other >= at)
        late[timed] = last
        worst, harm = worst_marks(sample, direction)
        marks = {"neighbour": neighbour, "anywhere": anywhere, "too late": late, "worst": worst}
        order = {kind: timed[marks[kind][timed] != at] for kind in marks}
        order["worst"] = np.argsort(-harm, kind="stable")[: (harm > 0).sum()]
        return cls(sample, marks, order, rng.permutation(len(sample.strong)))

    def changed(self, kind: str, rate: float) -> np.ndarray:
        """Return who is wrong if a share `rate` of the marks is, or as many as can be; of all tasks for outcomes."""
        if kind == WRONG_OUTCOMES:
            return self.flips[: round(rate * len(self.flips))]
        return self.order[kind][: round(rate * len(self.sample.timed))]

    def mark(self, kind: str, rate: float) -> np.ndarray:
        """Return the marks of which a share is wrong."""
        marked, wrong = self.sample.mark.copy(), self.changed(kind, rate)
        marked[wrong] = self.marks[kind][wrong]
        return marked

    def outcomes(self, rate: float) -> np.ndarray:
        """Return Strong's outcomes of which a share is flipped."""
        strong, wrong = self.sample.strong.copy(), self.changed(WRONG_OUTCOMES, rate)
        strong[wrong] = ~strong[wrong]
        return strong

    def records(self, kind: str, rate: float) -> Records:
        """Return the records of which a share is wrong, in marks or, if the kind is that, in outcomes."""
        if kind == WRONG_OUTCOMES:
            return Records.of(self.sample, self.sample.mark, self.sample.mark, self.outcomes(rate))
        mark = self.mark(kind, rate)
        return Records.of(self.sample, mark, mark)


def possible_marks(sample: Sample, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Return every wrong mark of a kind that there can be: positions of episodes, and for each its mark.

    The worst marks may be any.
    """
    rows = np.repeat(sample.timed, sample.horizon)
    marks = np.tile(np.arange(sample.horizon), len(sample.timed))
    away = np.abs(marks - sample.mark[rows])
    allowed = away == 1 if kind == "neighbour" else away > 0
    if kind == "too late":
        allowed &= marks == sample.horizon - 1
    return rows[allowed], marks[allowed]


def mark_changes(sample: Sample) -> np.ndarray:
    """Return what each mark would change of the gradient of its record, (timed episode, step, parameter)."""
    timed = sample.take(sample.timed)
    clean = gradients(TARGET, Records.of(timed, timed.mark, timed.mark))
    steps = (np.full(len(timed.mark), step) for step in range(sample.horizon))
    return np.stack([gradients(TARGET, Records.of(timed, step, step)) - clean for step in steps], axis=1)


def worst_marks(sample: Sample, direction: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mark of each episode that pushes its gradient farthest along a direction, and by how much.

    The sign counts: marks that push the other way would undo what these do.
    """
    pushes = mark_changes(sample) @ direction
    marks, harm = sample.mark.copy(), np.zeros(len(sample.mark))
    harm[sample.timed] = pushes.max(axis=1)
    marks[sample.timed] = np.where(pushes.max(axis=1) > 0, pushes.argmax(axis=1), sample.mark[sample.timed])
    return marks, harm


def farthest_direction(sample: Sample, frame: np.ndarray, rate: float = AIMED_RATE) -> np.ndarray:
    """Return the direction of `worst_marks` along which a share of wrong marks makes the longest first Newton step.

    In the coordinates of a frame in which the Hessian is the unit matrix that step is the sum of the marks' changes.
    It is tried to push each parameter up and down; from the best of these on, marks are chosen along the step that the
    last ones make, which never makes it shorter.
    """
    changes = mark_changes(sample) @ frame
    count = round(rate * len(changes))

    def step(along: np.ndarray) -> np.ndarray:
        pushes = changes @ (along / np.linalg.norm(along))
        chosen = np.argsort(-pushes.max(axis=1), kind="stable")[:count]
        return np.asarray(changes[chosen, pushes.argmax(axis=1)[chosen]].sum(axis=0))

    found = max((step(sign * row) for row in frame for sign in (-1, 1)), key=lambda moved: float(np.linalg.norm(moved)))
    for _ in range(20):
        found = step(found)
    return np.asarray(frame @ (found / np.linalg.norm(found)))
