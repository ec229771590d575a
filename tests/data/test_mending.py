"""Episodes without marks, and with Cheap's first steps as features, and what fits of them gain."""

from __future__ import annotations

import numpy as np
import pytest

from bayes_tacit import fit_map, load_example
from bayes_tacit.data.mending import with_early_steps, without_marks
from bayes_tacit.errors import InvalidDataError
from simulations.studies.misfits import WRONG


def test_without_marks_only_outcomes_are_left():
    episodes = load_example()
    bare = without_marks(episodes)
    assert not bare.has_window.any()
    assert (bare.outcomes == episodes.outcomes).all()
    assert episodes.has_window.any()


def test_early_steps_are_sums_of_the_first_steps_in_columns_of_their_own():
    episodes = load_example()
    early = with_early_steps(episodes, 2)
    assert early.feature_names[-4:] == tuple(f"{name} in 2 steps" for name in episodes.diagnostic_names)
    u = np.nan_to_num(episodes.dataset["diagnostics"].values)
    np.testing.assert_allclose(early.dataset["features"].values[:, -4:], u[:, 0] + u[:, 1])
    with pytest.raises(InvalidDataError, match="of other names"):
        with_early_steps(early, 2)


def test_a_fit_with_early_steps_learns_what_they_say_of_success():
    drawn = WRONG["incidence by rollout"](np.random.default_rng(1), 2000, 1.0)
    options = {"ridge": 0.0001, "restarts": 1, "zero_mass": "drop_window"}
    fit = fit_map(with_early_steps(drawn.episodes), **options)
    found = dict(zip(fit.feature_names, fit.gamma, strict=True))
    # The larger a weight, the more its diagnostic lowers the odds; x2 has nothing to do with them.
    assert found["u1 in 3 steps"] < found["u3 in 3 steps"] < 0
    assert abs(found["x2"]) < 0.15


def test_without_late_marks_thresholds_are_where_they_were():
    """Marks that are two steps late move the location; outcomes alone do not know of them."""
    drawn = WRONG["late"](np.random.default_rng(2), 4000, 1.0)
    options = {"ridge": 0.0, "restarts": 1, "zero_mass": "drop_window"}
    marked, bare = (fit_map(episodes, **options).beta0 for episodes in (drawn.episodes, without_marks(drawn.episodes)))
    assert abs(bare - 1) < 0.5 * abs(marked - 1)
