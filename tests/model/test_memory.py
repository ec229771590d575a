import numpy as np
import pymc as pm
import pytest
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from simulate import leaky_peaks, quietly, simulate_model

from bayes_tacit import build_model
from bayes_tacit.errors import EvidenceError, TacitWarning
from bayes_tacit.model.evidence import Evidence, collect_evidence
from bayes_tacit.model.families import NUMPY
from bayes_tacit.model.likelihood import CrossingSteps, threshold_log_likelihood
from bayes_tacit.model.memory import peaks

RHO = st.floats(0, 1)
ROLLOUTS = hnp.arrays(float, (2, 7, 3), elements=st.floats(0, 100) | st.just(0.0))


@given(u=ROLLOUTS, rho=RHO)
def test_peaks_are_the_largest_leaky_sums_so_far_between_the_highest_value_and_the_sum(u, rho):
    found = peaks(u, rho)
    np.testing.assert_allclose(found, leaky_peaks(u, rho), rtol=1e-12, atol=0)
    assert (np.diff(found, axis=1) >= 0).all()
    assert (found >= np.maximum.accumulate(u, axis=1)).all()
    assert (found <= np.cumsum(u, axis=1) * (1 + 1e-12)).all()


def test_without_forgetting_the_evidence_is_the_papers_to_the_bit(example):
    paper, remembered = collect_evidence(example), collect_evidence(example, memory=1.0, clock=True)
    assert paper.spec.memory == 1
    for name in ("before", "within"):
        np.testing.assert_array_equal(getattr(remembered, name)[:, :-1], getattr(paper, name))


@given(seed=st.integers(0, 10_000), rho=RHO | st.just(1.0), clock=st.booleans(), chunk=st.integers(3, 50))
@settings(max_examples=15)
def test_bounds_agree_with_a_plain_loop_however_the_data_are_chunked(seed, rho, clock, chunk):
    episodes = simulate_model(np.random.default_rng(seed), 30, widest=2)
    chunked = quietly(episodes.dataset.chunk({"episode": chunk}))
    evidence = collect_evidence(chunked, memory=rho, clock=clock)
    reached = leaky_peaks(episodes.dataset["diagnostics"].values, rho)
    if clock:
        steps = np.broadcast_to(np.arange(1.0, reached.shape[1] + 1)[:, None], (*reached.shape[:2], 1))
        reached = np.concatenate([reached, steps], axis=-1)
    dataset = episodes.dataset
    for row, position in enumerate(evidence.timed):
        start, end = (dataset[name].values[position] for name in ("window_start", "window_end"))
        n = int(dataset["n_steps"].values[position])
        first = n if np.isnan(start) else int(start)
        last = n - 1 if np.isnan(end) else int(end)
        before = reached[position, first - 1] if first else np.zeros(reached.shape[-1])
        np.testing.assert_allclose(evidence.before[row], before, rtol=1e-12)
        rise = reached[position, last] - before
        np.testing.assert_allclose(evidence.within[row], rise, rtol=1e-9, atol=1e-11)


def test_an_exact_tie_is_no_rise(example):
    dataset = example.dataset.isel(episode=example.has_window).copy(deep=True)
    dataset["diagnostics"] = dataset["diagnostics"] * 0 + 0.1
    evidence = collect_evidence(quietly(dataset), memory=0.0)
    assert len(evidence.zero_mass) == (dataset["window_start"].values > 0).sum()


def test_the_shorter_the_memory_the_more_windows_have_no_mass_and_a_clock_gives_all_of_them_some(example):
    without, with_clock = (
        [len(collect_evidence(example, memory=rho, clock=clock).zero_mass) for rho in (1.0, 0.9, 0.6, 0.0)]
        for clock in (False, True)
    )
    assert without == sorted(without)
    assert without[0] == 0 < without[-1]
    assert with_clock == [0, 0, 0, 0]


def test_a_window_without_a_new_peak_is_refused_with_the_way_out(example):
    with pytest.raises(EvidenceError, match=r"with memory 0\.6 no diagnostic reaches a new peak .* or clock=True"):
        collect_evidence(example, memory=0.6, zero_mass="refuse").settle_zero_mass(1e-12)
    with pytest.warns(TacitWarning, match="clock=True"):
        collect_evidence(example, memory=0.6).settle_zero_mass(1e-12)


@pytest.mark.parametrize("clock", [False, True])
def test_drawn_crossing_steps_follow_the_leaky_risk(rng, clock):
    episodes = simulate_model(rng, 200, memory=0.5)
    evidence = collect_evidence(episodes, memory=0.5, clock=clock)
    steps = CrossingSteps(episodes, evidence)
    w = np.array([0.4, 0.3, 0.1, 0.1, 0.1]) if clock else np.array([0.4, 0.3, 0.2, 0.1])
    location, scale = np.full(len(evidence.timed), 0.5), np.array(0.4)
    drawn = steps.draw(location, scale, location, *w, rng=np.random.default_rng(1))
    kappa = np.exp(0.5 + 0.4 * np.random.default_rng(1).standard_normal(len(evidence.timed)))
    risk = leaky_peaks(episodes.dataset["diagnostics"].values[evidence.timed], 0.5) @ w[:4]
    if clock:
        risk += w[4] * np.arange(1, risk.shape[1] + 1)
    inside = np.arange(risk.shape[1]) < episodes.n_steps[evidence.timed, None]
    np.testing.assert_array_equal(drawn, ((risk < kappa[:, None]) & inside).sum(axis=1))


def test_the_checkpoints_of_an_episode_that_is_due_span_its_rollout(example):
    evidence = collect_evidence(example, timing="proposal")
    steps = CrossingSteps(example, evidence)
    unmarked = ~example.has_window[evidence.timed] & ~evidence.open_above
    assert unmarked.sum() == 52
    assert (steps.first_checkpoint[unmarked] == 0).all()
    np.testing.assert_array_equal(steps.last_checkpoint[unmarked], example.n_steps[evidence.timed[unmarked]] - 1)


@pytest.fixture(scope="module")
def learned(example) -> Evidence:
    return collect_evidence(example, memory="learned", clock=True)


@pytest.mark.parametrize("rho", [0.0, 0.2, 0.617, 0.93, 0.999, 1.0])
def test_bounds_between_memories_are_close_to_those_at_the_memory(example, learned, rho):
    at, exact = learned.at_memory(rho), collect_evidence(example, memory=rho, clock=True)
    np.testing.assert_array_equal(at.timed, exact.timed)
    np.testing.assert_allclose(at.before, exact.before, rtol=0.012)
    np.testing.assert_allclose(at.before + at.within, exact.before + exact.within, rtol=0.012)
    # The peaks are convex in the memory, so straight lines never lie below them.
    assert (at.before >= exact.before * (1 - 1e-12)).all()
    assert (at.within >= 0).all()


def test_at_the_memories_of_the_grid_bounds_are_exact(example, learned):
    for rho in learned.grid.nodes[[0, 20, 40, -1]]:
        at, exact = learned.at_memory(rho), collect_evidence(example, memory=float(rho), clock=True)
        np.testing.assert_allclose(at.before, exact.before, rtol=1e-12)
        np.testing.assert_allclose(at.within, exact.within, rtol=1e-9, atol=1e-12)


def test_a_window_that_has_no_mass_at_some_memory_is_none_for_a_learned_one(example):
    found = collect_evidence(example, memory="learned")
    at_zero = collect_evidence(example, memory=0.0)
    assert set(at_zero.zero_mass) <= set(found.zero_mass)
    assert len(found.timed) + len(found.zero_mass) == len(collect_evidence(example).timed)
    assert found.grid.within.shape[1] == len(found.timed)
    with pytest.raises(EvidenceError, match=r"with some memories no diagnostic reaches a new peak .*clock=True"):
        found.settle_zero_mass()


def test_the_likelihood_of_a_learned_memory_is_that_of_the_memory_itself(example, learned):
    rho = float(learned.grid.nodes[30])
    w, beta = np.array([0.3, 0.2, 0.2, 0.2, 0.1]), np.array([0.1, -0.1, 0.2])
    point = {"gamma0": 0.2, "gamma": np.zeros(3), "beta0": 0.5, "beta": beta, "s": 0.6, "w": w, "rho": rho}
    one_draw = xr.Dataset(
        {
            name: (("chain", "draw", *dims.get(name, ())), np.asarray(value)[None, None])
            for dims in ({"gamma": ["feature"], "beta": ["feature"], "w": ["diagnostic"]},)
            for name, value in point.items()
        }
    )
    model = build_model(example, memory="learned", clock=True)
    tree = xr.DataTree.from_dict({"posterior": one_draw})
    with model:
        found = pm.compute_log_likelihood(tree, var_names=["threshold"], extend_inferencedata=False, progressbar=False)
    exact = collect_evidence(example, memory=rho, clock=True)
    location = 0.5 + exact.features[exact.timed] @ beta
    expected = threshold_log_likelihood(exact, w, location, 0.6, NUMPY)
    np.testing.assert_allclose(found["threshold"].values[0, 0], expected, rtol=1e-9)
