"""Valid input for every door, in a folder."""

from __future__ import annotations

import warnings
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr
from policy_worlds import draw_tasks, episodes_of
from posteriors import random_posterior

from bayes_tacit import Counterfactuals, Episodes, MapFit, fit_map, load_example, policies
from bayes_tacit.errors import TacitWarning
from bayes_tacit.policies import Landmark, PrefixRouter, TacitSwitch
from bayes_tacit.router.rule import RULES
from simulations.tuned import TunedDeferral

N_EPISODES = 12


@cache
def episodes() -> Episodes:
    """A few of the example's episodes, of every outcome."""
    with warnings.catch_warnings(action="ignore", category=TacitWarning):
        return load_example().take(range(N_EPISODES))


@cache
def fit() -> MapFit:
    """A fit on more of them."""
    with warnings.catch_warnings(action="ignore", category=TacitWarning):
        return fit_map(load_example().take(range(80)), restarts=1)


@cache
def posterior() -> xr.DataTree:
    """Draws in the shape that the sampler gives; nothing is sampled."""
    tree = random_posterior(np.random.default_rng(1), episodes(), draws=60)
    for name in ("sample_stats", "observed_data"):
        tree[name] = tree["posterior"].to_dataset()[["s"]]
    tree.attrs |= {"format": "bayes_tacit.posterior", "schema_version": 1, "prior": "{}", "sampler": "nutpie"}
    tree.attrs |= {"draws": 60, "tune": 5, "chains": 2, "seed": 1, "target_accept": 0.9, "data_fingerprint": "0" * 64}
    tree.attrs |= {"created_at": "2026-01-01", "clock": 0, "memory": 1.0, "inference_method": "nuts"}
    return tree


@cache
def counterfactuals() -> Counterfactuals:
    """What comes of every handoff of these episodes: made up, and the same every time."""
    rng = np.random.default_rng(2)
    rows = []
    known = episodes().dataset
    for name, steps, cheap in zip(episodes().ids, known["n_steps"].values, known["cheap_success"].values, strict=True):
        for step in [*range(int(steps)), None]:
            success = int(cheap) if step is None else int(rng.integers(2))
            calls = (
                {"cheap_calls": int(steps), "strong_calls": 0}
                if step is None
                else {"cheap_calls": step, "strong_calls": 3}
            )
            rows += [{"episode": name, "handoff": step, "success": success, "cost": float(rng.uniform(1, 9)), **calls}]
    return Counterfactuals.from_frame(pd.DataFrame(rows))


SET = {
    "TunedDeferral": TunedDeferral("risk", n_levels=11),
    "Landmark": Landmark(handoff="restart"),
    "PrefixRouter": PrefixRouter(prefixes=(1, 3)),
    "TacitSwitch": TacitSwitch(options={"restarts": 1, "ridge": 0.1}),
}
"""Policies whose defaults are too large for a small world."""

SAME_FILE = ("PosteriorTacitSwitch",)
"""Its router is TACIT-Switch's."""


@cache
def routers() -> dict[str, object]:
    """A router of every policy that the library has, fitted on a small world, by its name in a file."""
    found: dict[str, object] = {}
    with warnings.catch_warnings(action="ignore"):
        training = episodes_of(draw_tasks(1, 120))
        for name in [*policies.__all__, "TunedDeferral"]:
            made = getattr(policies, name, TunedDeferral)
            if not (is_dataclass(made) and hasattr(made, "fit") and "name" in dir(made)) or name in SAME_FILE:
                continue
            named = {each.name for each in fields(made)} & {"diagnostic"}
            policy = SET.get(name) or made(**dict.fromkeys(named, "risk"))
            fitted = policy.fit(training)
            if name == "TunedDeferral":
                setting = {"level": 6.0, "start": np.inf, "cheap": 2.0, "strong": -1.0, "start_weight": 1.0}
            else:
                setting = dict(fitted.candidates.iloc[len(fitted.candidates) // 2])
            router = fitted.router(setting)
            found[router.policy] = router
    # A forced handoff is no policy that is fitted.
    assert found.keys() == RULES.keys() - {"at_checkpoint"}, sorted(RULES.keys() - found.keys())
    return found


def written(home: Path, *names: str) -> Path:
    """Write what a door needs into a folder."""
    home.mkdir(parents=True, exist_ok=True)
    makers = {
        "few.jsonl": lambda path: episodes().write(path),
        "e.jsonl": lambda path: episodes().write(path),
        "e.parquet": lambda path: episodes().write(path),
        "e.nc": lambda path: episodes().write(path),
        "e.zarr": lambda path: episodes().write(path),
        "fit.json": lambda path: fit().save(path),
        "p.nc": _save_posterior,
        "p.zarr": _save_posterior,
        "c.csv": lambda path: counterfactuals().write(path),
        "c.parquet": lambda path: counterfactuals().write(path),
        "c.nc": lambda path: counterfactuals().write(path),
    }
    for name in names:
        makers[name](home / name)
    return home


def _save_posterior(path: Path) -> None:
    from bayes_tacit import save_posterior

    save_posterior(posterior(), path)
