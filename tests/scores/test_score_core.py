import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bayes_tacit.model.families import FAMILIES, LOGNORMAL
from bayes_tacit.scores.core import Draws, cumulate, score

FINITE = st.floats(-5, 5)
DIAGNOSTIC = st.just(0.0) | st.floats(0, 1e3)


@st.composite
def draws_and_tasks(draw):
    """Any draws, with any diagnostics (episode, step, diagnostic) and standardized features (episode, feature)."""
    n_draws, n, steps, d, k = (draw(st.integers(low, high)) for low, high in ((1, 4), (1, 3), (1, 6), (1, 4), (0, 3)))
    raw = draw(hnp.arrays(float, (n_draws, d), elements=st.floats(0, 1)))
    raw[raw.sum(axis=1) == 0] = 1.0
    draws = Draws(
        w=raw / raw.sum(axis=1, keepdims=True),
        gamma0=draw(hnp.arrays(float, n_draws, elements=FINITE)),
        gamma=draw(hnp.arrays(float, (n_draws, k), elements=FINITE)),
        beta0=draw(hnp.arrays(float, n_draws, elements=FINITE)),
        beta=draw(hnp.arrays(float, (n_draws, k), elements=FINITE)),
        s=draw(hnp.arrays(float, n_draws, elements=st.floats(0.01, 5))),
        family=FAMILIES[draw(st.sampled_from(sorted(FAMILIES)))],
    )
    x = draw(hnp.arrays(float, (n, k), elements=FINITE))
    return draws, x, draw(hnp.arrays(float, (n, steps, d), elements=DIAGNOSTIC))


def scores(draws, x, u):
    risk = cumulate(draws.risk(u))
    return score(draws.incidence(x)[:, None], draws.location(x)[:, None], draws.s, risk, draws.family)


def plain_score(draws, m, x, rollout):
    """One draw, one episode, written out with Python's own numbers."""
    pi = 1 / (1 + math.exp(-(draws.gamma0[m] + sum(g * value for g, value in zip(draws.gamma[m], x, strict=True)))))
    mu = draws.beta0[m] + sum(b * value for b, value in zip(draws.beta[m], x, strict=True))
    risk, out = 0.0, []
    for u in rollout:
        risk += sum(w * value for w, value in zip(draws.w[m], u, strict=True))
        if risk == 0:
            out.append(0.0)
            continue
        z = (math.log(risk) - mu) / draws.s[m]
        if draws.family is LOGNORMAL:
            out.append(pi * (0.5 * math.erfc(-z / math.sqrt(2)) if z < 0 else 0.5 * (1 + math.erf(z / math.sqrt(2)))))
        elif draws.family.name == "loglogistic":
            out.append(pi / (1 + math.exp(-z)) if z > -700 else 0.0)
        elif draws.family.name == "weibull":
            out.append(-pi * math.expm1(-math.exp(min(z, 300))))
        else:
            g = 4 * math.exp(min(z / 2, 300))
            lost = math.exp(-g) * (1 + g + g**2 / 2 + g**3 / 6) if g < 700 else 0.0
            # Where the sum leaves no digits, the first terms of the other tail.
            tail = min(g, 1e-2)
            tail = math.exp(-tail) * tail**4 / 24 * (1 + tail / 5 + tail**2 / 30 + tail**3 / 210 + tail**4 / 1680)
            out.append(pi * (tail if g < 1e-2 else 1 - lost))
    return out


@settings(deadline=None)
@given(draws_and_tasks())
def test_score_agrees_with_a_loop_in_plain_python(case):
    draws, x, u = case
    expected = [[plain_score(draws, m, x[i], u[i]) for i in range(len(x))] for m in range(len(draws))]
    np.testing.assert_allclose(np.moveaxis(scores(draws, x, u), -1, 0), expected, rtol=1e-12, atol=1e-12)


@settings(deadline=None)
@given(draws_and_tasks())
def test_score_never_decreases_and_stays_between_zero_and_incidence(case):
    draws, x, u = case
    q = scores(draws, x, u)
    # Rounding may differ by a bit where the exact score hardly moves.
    assert (np.diff(q, axis=1) >= -1e-15).all()
    assert (q >= 0).all()
    assert (q <= draws.incidence(x)[:, None]).all()


@settings(deadline=None)
@given(draws_and_tasks(), st.randoms(use_true_random=False))
def test_permuting_diagnostics_with_their_weights_changes_nothing(case, random):
    draws, x, u = case
    order = list(range(u.shape[-1]))
    random.shuffle(order)
    permuted = Draws(**{**vars(draws), "w": draws.w[:, order]})
    np.testing.assert_allclose(scores(permuted, x, u[..., order]), scores(draws, x, u), rtol=1e-11, atol=1e-13)


@settings(deadline=None)
@given(draws_and_tasks())
def test_a_score_does_not_depend_on_what_is_computed_with_it(case):
    draws, x, u = case
    together = scores(draws, x, u)
    for m in range(len(draws)):
        for i in range(len(x)):
            alone = scores(draws.take(slice(m, m + 1)), x[i : i + 1], u[i : i + 1])
            assert (alone[0, :, 0] == together[i, :, m]).all()


def test_scores_survive_risks_at_the_ends_of_the_floating_point_range():
    risk = np.array([0.0, 5e-324, 1e-300, 1.0, 1e300, np.inf, np.nan])
    for family in FAMILIES.values():
        q = score(np.float64(0.7), np.float64(0.0), np.float64(1e-3), risk, family)
        middle = 0.7 * float(family.cdf(np.array([0.0]))[0])
        np.testing.assert_array_equal(q, [0.0, 0.0, 0.0, middle, 0.7, 0.7, np.nan])


def test_a_diagnostic_without_weight_cannot_make_a_score_undefined():
    none = np.zeros((1, 0))
    draws = Draws(np.array([[0.0, 1.0]]), np.zeros(1), none, np.zeros(1), none, np.ones(1), LOGNORMAL)
    u = np.tile([1e308, 0.5], (1, 3, 1))
    assert cumulate(draws.risk(u)).ravel().tolist() == [0.5, 1.0, 1.5]
