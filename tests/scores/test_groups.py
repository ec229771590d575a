"""Scores of groups from draws made by hand: both intercepts of a known group, and both spreads of a new one."""

import numpy as np
import pytest
from posteriors import random_posterior
from scipy import special
from simulate import quietly, simulate_model

from bayes_tacit import Router, handoff_score

GROUPS = ["east", "west"]


@pytest.fixture(scope="module")
def episodes():
    plain = simulate_model(np.random.default_rng(3), 12)
    places = np.array([*GROUPS, "nowhere"])[np.arange(len(plain)) % 3]
    return quietly(plain.dataset.assign(place=("episode", places)))


def with_groups(tree, rng, spreads):
    """Return draws of two groups' intercepts, whose spreads are these for incidence and location."""
    posterior = tree["posterior"].to_dataset().assign_coords(group=GROUPS)
    sample = posterior["s"].shape
    for name, spread in spreads.items():
        posterior[f"{name}_spread"] = ("chain", "draw"), np.full(sample, spread)
        posterior[f"{name}_offset"] = ("chain", "draw", "group"), rng.normal(size=(*sample, 2))
    tree = tree.copy()
    tree["posterior"] = posterior
    tree.attrs["groups"] = "place"
    return tree


def plain_scores(tree, episodes, intercepts):
    """q(t) as the paper has it, with these added to the logit of pi and to the location: (draw, episode, step)."""
    draws = tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    constant = tree["constant_data"].to_dataset()
    x = ((episodes.dataset["features"] - constant["feature_mean"]) / constant["feature_scale"]).values
    total = np.nancumsum(episodes.dataset["diagnostics"].values, axis=1)
    gamma, beta, w = (draws[name].transpose("sample", ...).values for name in ("gamma", "beta", "w"))
    logit = draws["gamma0"].values[:, None] + gamma @ x.T + intercepts["gamma"]
    location = draws["beta0"].values[:, None] + beta @ x.T + intercepts["beta"]
    with np.errstate(divide="ignore"):
        risk = np.log(np.einsum("etd,md->met", total, w))
    return special.expit(logit)[..., None] * special.ndtr(
        (risk - location[..., None]) / draws["s"].values[:, None, None]
    )


def test_a_known_groups_scores_have_its_own_intercepts_of_incidence_and_location(episodes):
    rng = np.random.default_rng(5)
    tree = with_groups(random_posterior(rng, episodes, draws=20), rng, {"gamma": 1.5, "beta": 0.7})
    known = episodes.take(np.flatnonzero(episodes.dataset["place"].values != "nowhere"))
    at = [GROUPS.index(place) for place in known.dataset["place"].values.tolist()]
    draws = tree["posterior"].to_dataset().stack(sample=("chain", "draw"))
    own = {
        name: (draws[f"{name}_spread"] * draws[f"{name}_offset"]).transpose("sample", "group").values[:, at]
        for name in ("gamma", "beta")
    }
    found = handoff_score(tree, known).stack(sample=("chain", "draw")).transpose("sample", "episode", "step").values
    expected = np.where(np.isnan(found), np.nan, plain_scores(tree, known, own))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(Router.from_posterior(tree, alpha=0.3).scores(known), found.mean(axis=0), rtol=1e-9)


def test_a_new_groups_scores_are_over_both_spreads(episodes):
    rng = np.random.default_rng(6)
    alike = random_posterior(rng, episodes, draws=2000, spread=1e-9)
    new = episodes.take(np.flatnonzero(episodes.dataset["place"].values == "nowhere"))
    # The mean over both spreads, which are independent, by quadrature: one draw for each pair of nodes.
    nodes, weights = np.polynomial.hermite_e.hermegauss(15)
    pairs, mass = np.array(np.meshgrid(nodes, nodes)).reshape(2, -1, 1), np.outer(weights, weights).ravel()
    one = alike.isel(chain=[0], draw=slice(0, len(mass)))
    for spreads in ({"gamma": 2.0, "beta": 0.0}, {"gamma": 0.0, "beta": 1.0}, {"gamma": 1.0, "beta": 0.5}):
        scores = handoff_score(with_groups(alike, rng, spreads), new)
        found, spread = scores.mean(("chain", "draw")).values, scores.std(("chain", "draw")).values
        shifts = {name: spreads[name] * pairs[at] for at, name in enumerate(("gamma", "beta"))}
        exact = np.tensordot(mass / mass.sum(), plain_scores(one, new, shifts), axes=1)
        inside = ~np.isnan(found)
        assert (np.abs(found - exact)[inside] <= 4.5 * spread[inside] / np.sqrt(4000) + 1e-4).all()
        # A wrong spread would be seen.
        assert (spread[inside] > 0.05).any()
