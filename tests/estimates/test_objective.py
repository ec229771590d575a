import numpy as np
import pytest
from paper import complex_step, paper_objective
from simulate import simulate_model

from bayes_tacit import Episodes, RidgePrior
from bayes_tacit.errors import TacitWarning
from bayes_tacit.estimates.objective import PaperObjective
from bayes_tacit.model.evidence import collect_evidence

RIDGE = 0.02


@pytest.fixture(scope="module")
def episodes() -> Episodes:
    """Random episodes of every kind: zero lower bounds, missing windows, right censoring, a window without risk."""
    with pytest.warns(match="without a window"):
        drawn = simulate_model(np.random.default_rng(5), 250, unmarked=0.2, widest=2)
    dataset = drawn.dataset.copy(deep=True)
    marked = np.flatnonzero(drawn.has_window)
    for i in marked[:3]:
        start, end = int(dataset["window_start"][i]), int(dataset["window_end"][i])
        dataset["diagnostics"][i, start : end + 1] = 0.0
    with pytest.warns(match="without a window|zero"):
        return Episodes(dataset)


@pytest.fixture(scope="module")
def objective(episodes: Episodes) -> PaperObjective:
    return PaperObjective.of(collect_evidence(episodes, unmarked="outcome"), RIDGE, 1e-12)


def transcribed(episodes: Episodes, objective: PaperObjective, point: np.ndarray) -> complex:
    """The transcription in the optimizer's coordinates."""
    free = objective.threshold.basis.shape[1]
    incidence, threshold = objective.parts(point)
    logits = objective.threshold.basis @ threshold[:free]
    # The optimizer weighs each diagnostic in units of its mean.
    raw = np.exp(logits) / np.exp(logits).sum() / objective.scale
    s = 1 / threshold[-1]
    return paper_objective(
        episodes,
        w=raw / raw.sum(),
        gamma0=incidence[0],
        gamma=incidence[1:],
        beta0=threshold[free] * s - np.log(raw.sum()),
        beta=threshold[free + 1 : -1] * s,
        s=s,
        ridge=RIDGE,
    )


POINTS = {
    "near the truth": np.array([0.3, 0.5, -0.4, 0.2, 0.3, -0.2, 0.1, 1.0, 0.3, -0.5, 0.2, 1.8]),
    "wide thresholds": np.array([-0.5, 0.1, 0.8, -0.9, -1.0, 0.4, 0.7, 0.2, -0.1, 0.2, 0.4, 0.6]),
    "many episodes floored": np.array([1.0, -0.7, 0.2, 0.6, 0.2, 0.9, -0.3, 18.0, 3.0, -2.0, 1.0, 9.0]),
}


@pytest.mark.parametrize("where", POINTS)
def test_objective_and_gradient_agree_with_the_papers_formula(where, episodes, objective):
    point = POINTS[where]
    here = objective.derivatives(point)
    assert here.value == pytest.approx(transcribed(episodes, objective, point).real, abs=1e-9)
    gradient = complex_step(lambda at: transcribed(episodes, objective, at), point)
    np.testing.assert_allclose(here.gradient, gradient, atol=1e-9)


def test_the_cases_that_the_agreement_must_cover_are_there(episodes, objective):
    evidence = objective.evidence
    assert min(evidence.n_left, evidence.n_interval, evidence.n_right) > 5
    assert len(evidence.zero_mass) == 3
    assert (episodes.outcomes == "01").sum() > episodes.has_window.sum()
    assert objective.floored(POINTS["near the truth"]).sum() == 3
    assert objective.floored(POINTS["many episodes floored"]).sum() > 20


@pytest.mark.parametrize("where", POINTS)
def test_hessian_is_the_derivative_of_the_gradient(where, objective):
    point, step = POINTS[where], 1e-6
    numeric = [
        (objective.derivatives(point + step * unit).gradient - objective.derivatives(point - step * unit).gradient)
        / (2 * step)
        for unit in np.eye(len(point))
    ]
    np.testing.assert_allclose(objective.derivatives(point).hessian, numeric, atol=1e-6)


@pytest.fixture(scope="module")
def floored_model(episodes: Episodes):
    """The PyMC model with the paper's floor, its log-likelihood and gradient compiled once."""
    from bayes_tacit import build_model

    with pytest.warns(TacitWarning, match="they are floored"):
        model = build_model(episodes, RidgePrior(strength=RIDGE), floor=1e-12, unmarked="outcome")
    quickly = {"jacobian": False, "mode": "FAST_COMPILE"}
    return model, model.compile_logp(**quickly), model.compile_dlogp(**quickly)


@pytest.mark.parametrize("where", POINTS)
def test_pymc_model_has_the_papers_objective_and_gradient(where, episodes, objective, floored_model):
    """Up to constants, minus the log density over n is the objective, in PyMC's own coordinates."""
    model, logp, dlogp = floored_model
    incidence, threshold = objective.parts(POINTS[where])
    logits = objective.threshold.basis @ threshold[:3]
    names = [variable.name for variable in model.value_vars]
    start = {
        "gamma0": incidence[:1],
        "gamma": incidence[1:],
        "beta0": threshold[3:4] / threshold[-1],
        "beta": threshold[4:-1] / threshold[-1],
        "s_log__": -np.log(threshold[-1:]),
        "w_simplex__": (logits - logits.mean())[:-1],
    }
    sizes = np.cumsum([len(start[name]) for name in names])[:-1]
    flat = np.concatenate([start[name] for name in names])

    def transcription(at: np.ndarray) -> complex:
        value = dict(zip(names, np.split(at, sizes), strict=True))
        free = np.append(value["w_simplex__"], -value["w_simplex__"].sum())
        return paper_objective(
            episodes,
            w=np.exp(free) / np.exp(free).sum(),
            gamma0=value["gamma0"][0],
            gamma=value["gamma"],
            beta0=value["beta0"][0],
            beta=value["beta"],
            s=np.exp(value["s_log__"][0]),
            ridge=RIDGE,
        )

    point = {name: start[name][0] if name in ("gamma0", "beta0", "s_log__") else start[name] for name in names}
    n = len(episodes)
    scale = RidgePrior(strength=RIDGE).coefficient_scale(n)
    constants = np.log(6.0) - 6 * np.log(scale * np.sqrt(2 * np.pi))
    assert -(logp(point) - constants) / n == pytest.approx(transcription(flat).real, abs=1e-9)
    np.testing.assert_allclose(-dlogp(point) / n, complex_step(transcription, flat), atol=1e-9)
