"""Routers of random parameters, and Hypothesis strategies for them and for what they observe."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from bayes_tacit import Router
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.scores.core import Draws


def random_router(
    seed: int = 0,
    *,
    draws: int = 1,
    diagnostics: int = 3,
    features: int = 2,
    family: str = "lognormal",
    rule: str | float = "mean",
    alpha: float = 0.3,
) -> Router:
    """Parameters for which scores go from near 0 to near 1 as the risk goes from 0.1 to 10."""
    rng = np.random.default_rng(seed)
    return Router(
        diagnostic_names=tuple(f"u{j}" for j in range(diagnostics)),
        feature_names=tuple(f"x{j}" for j in range(features)),
        feature_mean=rng.normal(size=features),
        feature_scale=rng.uniform(0.5, 2, features),
        draws=Draws(
            w=rng.dirichlet(np.ones(diagnostics), draws),
            gamma0=rng.normal(2, 0.5, draws),
            gamma=rng.normal(0, 0.3, (draws, features)),
            beta0=rng.normal(0.3, 0.3, draws),
            beta=rng.normal(0, 0.3, (draws, features)),
            s=rng.uniform(0.3, 1, draws),
            family=FAMILIES[family],
        ),
        rule=rule,
        alpha=alpha,
    )


ALPHAS = st.floats(0.01, 1)
ROUTERS = st.builds(
    random_router,
    st.integers(0, 10_000),
    draws=st.sampled_from([1, 2, 7, 40]),
    diagnostics=st.just(3),
    features=st.just(2),
    family=st.sampled_from(sorted(FAMILIES)),
    rule=st.just("mean") | st.floats(0.01, 0.99),
    alpha=ALPHAS,
)
FEATURES = st.tuples(*[st.floats(-5, 5)] * 2)
ROLLOUTS = st.lists(st.tuples(*[st.floats(0, 3) | st.integers(0, 2)] * 3), min_size=1, max_size=12)
