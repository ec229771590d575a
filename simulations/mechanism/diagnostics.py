"""The paper's checks on a simulated world: what predicts that Cheap fails, and what the teacher's marks are worth."""

from __future__ import annotations

import numpy as np
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegression

from bayes_tacit import Episodes
from bayes_tacit.data.timing import NEVER, handoff_steps
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies.world import World
from simulations.mechanism.world import RISK


def diagnostics(training: Episodes, test: World) -> dict[str, float]:
    """Compute all checks.

    Parameters
    ----------
    training
        Fits the logistic regression on task features, nothing else.
    test
        Where everything is measured.

    Returns
    -------
    dict
        - `auc_cumulative_risk`, `auc_task_features`, `auc_latest_risk`: how well the summed risk of the whole Cheap
          rollout, the features, and the risk of its last step tell failed Cheap rollouts from successful ones;
        - `ab01_with_candidate`: the share of the AB = 01 tasks in which the teacher found a handoff;
        - `success_after_marked_handoff`: how often handing off right after the marked step succeeds.
    """
    failed = ~test.episodes.dataset["cheap_success"].values
    risk = test.episodes.dataset["diagnostics"].sel(diagnostic=RISK).values
    last = risk[np.arange(len(risk)), test.episodes.n_steps - 1]
    return {
        "auc_cumulative_risk": auc(np.nansum(risk, axis=1), failed),
        "auc_task_features": auc(failure_scores(training, test.episodes), failed),
        "auc_latest_risk": auc(last, failed),
        **marks(test),
    }


def auc(scores: np.ndarray, positive: np.ndarray) -> float:
    """Give the probability that a positive case scores higher than a negative one, ties counting one half.

    Examples
    --------
    >>> auc(np.array([1.0, 2.0, 3.0, 3.0]), np.array([False, True, False, True]))
    0.625
    """
    n_positive = int(positive.sum())
    n_negative = len(positive) - n_positive
    if not n_positive or not n_negative:
        raise InvalidDataError("cases of both kinds", field="number of positive cases", value=n_positive)
    ranks = float(rankdata(scores)[positive].sum())
    return (ranks - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative)


def failure_scores(training: Episodes, test: Episodes) -> np.ndarray:
    """Score tasks by a logistic regression of Cheap's failure on task features."""
    x, failed = training.dataset["features"].values, ~training.dataset["cheap_success"].values
    fit = LogisticRegression().fit(x, failed)
    return fit.decision_function(test.dataset["features"].values)


def marks(world: World) -> dict[str, float]:
    """Tell how many AB = 01 tasks have a mark, and how many of these succeed when Strong takes over right after it."""
    marked = world.episodes.has_window
    crossings = np.where(marked, world.episodes.dataset["window_end"].values, NEVER)
    after = world.counterfactuals.outcomes_at(handoff_steps(crossings, "post_action")).success
    return {
        "ab01_with_candidate": float(marked.sum() / (world.episodes.outcomes == "01").sum()),
        "success_after_marked_handoff": float(after[marked].mean()),
    }
