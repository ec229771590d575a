"""What `make demo` deploys is what it chose."""

import numpy as np
import pytest
from posteriors import random_posterior

from bayes_tacit import bounds_from_logs
from simulations.demo import COST, STEP_BUDGET, choose_router


@pytest.mark.parametrize("spread", [0.2, 0.6])
def test_what_the_demo_says_of_its_alpha_holds_for_the_router_that_it_deploys(rng, example, spread):
    router, suggestion = choose_router(random_posterior(rng, example, draws=30, spread=spread), example)
    assert router.alpha == suggestion.alpha
    again = bounds_from_logs(
        router.scores(example), example, [router.alpha], router.timing, cost=COST, step_budget=STEP_BUDGET
    )
    found = again.narrowed.iloc[0]
    for name, value in suggestion.bounds.items():
        assert found[name] == pytest.approx(value, rel=1e-12)
    handed_off = router.handoffs(example).values
    assert 0 < np.count_nonzero(handed_off >= 0) < len(example)
