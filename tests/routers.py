"""Routers of random parameters, and Hypothesis strategies for them and for what they observe."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from bayes_tacit import Router
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.router.start import Start
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
    memory: float | str = 1.0,
    clock: bool = False,
    started: bool = False,
    **settings,
) -> Router:
    """Parameters for which scores go from near 0 to near 1 as the risk goes from 0.1 to 10.

    The memory is a number, or "by draw".
    """
    rng = np.random.default_rng(seed)
    router = Router(
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
        **settings,
    )
    weights = rng.dirichlet(np.ones(diagnostics + 1), draws) if clock else router.draws.w
    kept = rng.uniform(size=draws) if memory == "by draw" else memory
    start = Start(1.0, 0.2, rng.normal(0, 1, draws), rng.normal(0, 1, (draws, features))) if started else None
    return replace(router, draws=replace(router.draws, w=weights, memory=kept, clock=clock), at_start=start)


ALPHAS = st.floats(0.01, 1)
MEMORIES = st.sampled_from([1.0, 0.6, 0.0, "by draw"])
ROUTERS = st.builds(
    random_router,
    st.integers(0, 10_000),
    draws=st.sampled_from([1, 2, 7, 40]),
    diagnostics=st.just(3),
    features=st.just(2),
    family=st.sampled_from(sorted(FAMILIES)),
    rule=st.just("mean") | st.floats(0.01, 0.99),
    alpha=ALPHAS,
    memory=MEMORIES,
    clock=st.booleans(),
)
"""Routers without start and pace: their scores are compared with the same alpha at every step."""

EVERY_ROUTER = st.builds(
    random_router,
    st.integers(0, 10_000),
    draws=st.sampled_from([1, 2, 7, 40]),
    rule=st.just("mean") | st.floats(0.01, 0.99),
    alpha=st.floats(0.01, 3) | st.just(np.inf),
    memory=MEMORIES,
    clock=st.booleans(),
    started=st.booleans(),
    pace=st.sampled_from([-0.4, 0.1, 0.6]),
    handoff=st.sampled_from(["resume", "restart"]),
)
FEATURES = st.tuples(*[st.floats(-5, 5)] * 2)
ROLLOUTS = st.lists(st.tuples(*[st.floats(0, 3) | st.integers(0, 2)] * 3), min_size=1, max_size=12)
