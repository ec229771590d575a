"""TRIM's analogue: a model judges each of Cheap's steps, and Strong takes single steps where it looks wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, get_args

import numpy as np
import pandas as pd

from bayes_tacit import validate
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.timing import DEFAULT_TIMING, TIMINGS, Timing, marked_checkpoints, usable_checkpoints
from bayes_tacit.errors import EvidenceError, InvalidDataError
from bayes_tacit.model.spec import Unmarked
from bayes_tacit.policies.base import Setting, number_in
from bayes_tacit.policies.logistic import NEWTON, L2Logistic, LogisticFit
from bayes_tacit.policies.single_steps import as_played, replayed_points, step_thresholds
from bayes_tacit.policies.view import Seen
from bayes_tacit.policies.world import World
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import TrimController

RIGHT, WRONG, UNKNOWN = 0, 1, -1


@dataclass(frozen=True)
class Trim:
    """A logistic model of whether a step is wrong, and a threshold on its probability.

    It is an analogue of TRIM (targeted routing in multi-step reasoning, 2026), not TRIM itself. There a process reward
    model reads each reasoning step of a small model, and a step whose reward is low is written anew by a large one,
    after which the small one goes on. Kept is that each step is judged by itself and that Strong takes single steps,
    by TRIM's plainest rule, a threshold. Dropped are the words: the step's diagnostics stand for them, and the
    task's features for its context. Dropped are also rules that plan ahead; and where a checkpoint is after an action
    (the timing "post_action"), the step cannot be written anew, so Strong takes the next one.

    Nobody judged single steps here, so their labels are derived. A step is wrong if a handoff is due by then, which is
    what a process reward calls a step from which the task is no longer solved. So

    ==========================  ===================================================================================
    episode                     its steps
    ==========================  ===================================================================================
    Cheap succeeds (AB = 1x)    right
    AB = 01, window [a, b]      right before a; not known from a to b - 1; wrong from b on, where Cheap is off track
    AB = 01, no window          the last one is wrong (`unmarked="due"`), or none is known (`"outcome"`)
    neither succeeds (AB = 00)  not known: nobody says where it went wrong
    ==========================  ===================================================================================

    and the model is fitted on all steps that are known, each once.

    What comes of single steps depends on every earlier one, so it has to be replayed: the world must be able to
    (`World.judged`). Logs alone cannot.

    Attributes
    ----------
    features
        The task's features to use; by default all.
    logistic
        How the model is fitted.
    unmarked
        What an AB = 01 episode without a window says.
    average_steps
        As for `StepDeferral`: average numbers of deferred steps a training task, by which thresholds are found; by
        default the thresholds are quantiles of the training probabilities.
    timing
        What a checkpoint is, as for `StepDeferral`.
    n_candidates
        How many quantiles.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> training = load_example()
    >>> fitted = Trim(average_steps=(0, 2, 4)).fit(training)
    >>> fitted.candidates.round(2)
       alpha  target
    0    inf     0.0
    1   0.58     2.0
    2   0.48     4.0
    >>> fitted.scores(training)[1, :4].round(2)
    array([0.42, 0.48, 0.49, 0.44])
    """

    features: tuple[str, ...] | None = None
    logistic: L2Logistic = NEWTON
    unmarked: Unmarked = "due"
    average_steps: tuple[float, ...] | None = None
    timing: Timing = DEFAULT_TIMING
    n_candidates: int = 101
    name: str = "TRIM analogue"
    sees: ClassVar[str] = "The task's features, and the diagnostics of the latest step."
    decides: ClassVar[str] = "After each Cheap step: Cheap or Strong for the next step only; then Cheap acts again."

    def __post_init__(self) -> None:
        """Check the settings."""
        validate.choice("unmarked", self.unmarked, get_args(Unmarked))
        validate.choice("timing", self.timing, TIMINGS)
        validate.whole("n_candidates", self.n_candidates, 2)
        if self.features is not None:
            object.__setattr__(self, "features", tuple(self.features))

    def fit(self, training: Episodes) -> FittedTrim:
        """Fit the model on the steps whose label is known, and make the candidates from its probabilities."""
        seen = Seen.of(training, self.features or ())
        features = seen.feature_names if self.features is None else self.features
        labels = step_labels(training, self.timing, self.unmarked)
        known = labels != UNKNOWN
        counts = {word: int((labels == label).sum()) for word, label in (("right", RIGHT), ("wrong", WRONG))}
        if not all(counts.values()):
            told = " and ".join(f"{n} to be {word}" for word, n in counts.items())
            raise EvidenceError(
                f"{self.name}: {told}, of {int(seen.n_steps.sum())} training steps; expected both to learn from"
            )
        model = self.logistic.fit(_names(seen, features), _columns(seen, features)[known], labels[known] == WRONG)
        fitted = FittedTrim(model, features, seen.diagnostic_names, self.timing, pd.DataFrame(), self.name)
        usable = usable_checkpoints(seen.n_steps, self.timing)
        candidates = step_thresholds(fitted.scores(training), usable, self.average_steps, self.n_candidates)
        return FittedTrim(model, features, seen.diagnostic_names, self.timing, candidates, self.name)


@dataclass(frozen=True, eq=False)
class FittedTrim:
    """The fitted model and the thresholds to try.

    Attributes
    ----------
    model
        Probability that a step is wrong.
    features, diagnostics
        What its columns are made of.
    timing
        What a checkpoint is.
    candidates
        `alpha`, and `target`, how many steps of a training rollout are at or above it on average.
    name
        That of the policy.
    """

    model: LogisticFit
    features: tuple[str, ...]
    diagnostics: tuple[str, ...]
    timing: Timing
    candidates: pd.DataFrame
    name: str

    def scores(self, episodes: Episodes) -> np.ndarray:
        """Give the probability that a step is wrong: (episode, step), NaN past the end of an episode."""
        seen = Seen.of(episodes, self.features)
        names = _names(seen, self.features)
        if names != self.model.names:
            raise InvalidDataError(f"{self.model.names}, as in training", field="columns of the episodes", value=names)
        inside = np.arange(seen.diagnostics.shape[1]) < seen.n_steps[:, None]
        out = np.full(inside.shape, np.nan)
        out[inside] = self.model.probability(_columns(seen, self.features)[inside])
        return out

    def defers(self, episodes: Episodes, setting: Setting) -> np.ndarray:
        """Tell after which steps of a Cheap rollout Strong would take the next one: (episode, step)."""
        return self.scores(episodes) >= number_in(setting, "alpha")

    def operating_points(self, world: World, settings: pd.DataFrame | None = None) -> pd.DataFrame:
        """Give the averages of each setting."""
        table = self.candidates if settings is None else settings.reset_index(drop=True)
        return replayed_points(table, len(world), lambda alpha: self._replay(world, alpha))

    def outcomes(self, world: World, setting: Setting) -> Outcomes:
        """Give what comes of one setting, by episode."""
        return Outcomes(*self._replay(world, np.array([number_in(setting, "alpha")]))[:, 0])

    def _replay(self, world: World, alpha: np.ndarray) -> np.ndarray:
        if world.judged is None:
            raise InvalidDataError(
                "a function that replays it, World(..., judged=...): counterfactuals of permanent handoffs do not say "
                "what comes of single steps of Strong",
                field="judged of the world",
                value=None,
            )
        return as_played(world.judged(self.model.chance(), alpha), len(alpha), len(world), "judged")

    def router(self, setting: Setting) -> PolicyRouter:
        """Give the router that decides so in an agent."""
        return PolicyRouter(self.controller(setting), self.features, self.diagnostics)

    def controller(self, setting: Setting) -> TrimController:
        """Give the controller that judges so while an agent plays."""
        return TrimController(self.diagnostics, self.model.chance(), number_in(setting, "alpha"), self.timing)


def step_labels(episodes: Episodes, timing: Timing, unmarked: Unmarked) -> np.ndarray:
    """Say of each step whether it is right (0) or wrong (1), as `Trim` derives it; -1 where nobody knows.

    Examples
    --------
    >>> from bayes_tacit import load_example
    >>> episodes = load_example()
    >>> [episodes.dataset[f"window_{end}"].values[4].item() for end in ("start", "end")]
    [5.0, 7.0]
    >>> step_labels(episodes, "post_action", "due")[4, :8]
    array([ 0,  0,  0,  0,  0, -1, -1,  1])
    """
    dataset = episodes.dataset
    n_steps = dataset["n_steps"].values
    step = np.arange(dataset.sizes["step"])
    cheap, strong = (dataset[f"{agent}_success"].values.astype(bool) for agent in ("cheap", "strong"))
    first, last = (marked_checkpoints(dataset[f"window_{end}"].values, n_steps, timing) for end in ("start", "end"))
    marked = ~np.isnan(dataset["window_start"].values)
    labels = np.full((len(n_steps), len(step)), UNKNOWN)
    labels[cheap] = RIGHT
    labels[marked[:, None] & (step < first[:, None])] = RIGHT
    labels[marked[:, None] & (step >= last[:, None])] = WRONG
    if unmarked == "due":
        labels[(~cheap & strong & ~marked)[:, None] & (step == n_steps[:, None] - 1)] = WRONG
    labels[step >= n_steps[:, None]] = UNKNOWN
    return labels


def _names(seen: Seen, features: tuple[str, ...]) -> tuple[str, ...]:
    return (*features, *(f"last {name}" for name in seen.diagnostic_names))


def _columns(seen: Seen, features: tuple[str, ...]) -> np.ndarray:
    """Give what a step is judged by, (episode, step, column); NaN past the end of an episode."""
    task = np.broadcast_to(seen.task_columns(features)[:, None], (*seen.diagnostics.shape[:2], len(features)))
    return np.concatenate([task, seen.diagnostics], axis=2)
