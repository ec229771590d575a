"""The demo and its gateway."""

from __future__ import annotations

import json

import numpy as np
import pytest
from posteriors import random_posterior

from bayes_tacit import bounds_from_logs
from bayes_tacit.gateway import default_router
from bayes_tacit.monitor import summarize
from simulations import served
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


def test_a_router_from_logs_is_served_and_hands_a_session_over_for_good(tmp_path):
    logs = [tmp_path / "cheap.jsonl", tmp_path / "strong.jsonl"]
    for path, script in zip(logs, (served.cheap, served.strong), strict=True):
        served.write_rollouts(path, script, range(120))
    router, shadow, log = (tmp_path / name for name in ("router.json", "shadow.json", "gateway.jsonl"))
    learned = served.learned(*logs, cap=6)
    learned.save(router)
    default_router(signs=3).save(shadow)
    story = served.serve_tasks(router, shadow, log, range(200, 215))
    sides = [told["served"] for told in story]
    turned = sides.index("strong")
    assert sides == ["cheap"] * turned + ["strong"] * (len(sides) - turned)
    assert turned >= 1
    assert f"reached alpha {learned.alpha:g}" in story[turned]["why"]
    assert story[turned]["handoff"] == "restart"
    summary = summarize(log, learned)
    assert (summary.sessions, summary.success[0].known, summary.faults) == (15, 15, 0)
    assert 0 < summary.handed < 15
    assert {one.name for one in summary.drifts} == {"prompt_length", *served.LOOKED_AT}
    assert sum(one.sessions for one in summary.compared) == 15
    calls = [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "reply"]
    assert summary.spent.cost == sum(1 if line["side"] == "cheap" else 10 for line in calls)


def test_the_models_do_what_the_demo_says_of_them():
    solved = {
        name: sum(served.play(served.task(number), script) for number in range(200))
        for name, script in (("cheap", served.cheap), ("strong", served.strong))
    }
    assert solved["strong"] > solved["cheap"] > 120
