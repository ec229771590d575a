"""`python -m models NAME [episodes]`: the mode, draws, bands of q(t) and a report of one of the pages.

The pages are PyMC programs that stand on their own; what is fitted here is what they state.
"""

from __future__ import annotations

import argparse
import base64
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import NoReturn

import numpy as np
import pandas as pd
import pymc as pm
import xarray as xr

from bayes_tacit import Episodes, ModelSpec, credible_band, validate
from bayes_tacit.errors import TacitError, TacitWarning
from bayes_tacit.files import atomic_path
from models.alfworld import ALFWORLD
from models.dabench import DABENCH
from models.experiment import Experiment
from models.mechanism import FULL
from models.pieces import drawn
from models.recovery import RECOVERY

PAGES = ("paper", "noisy_outcomes", "wrong_marks", "unpaired", "memory", "by_group")
EXPERIMENTS = {"recovery": RECOVERY, "mechanism": FULL, "alfworld": ALFWORLD, "dabench": DABENCH}
NAMES = (*PAGES, *EXPERIMENTS)


@dataclass(frozen=True)
class Program:
    """One page, or an experiment of the paper on its page: how it is stated, what it is in the library, its example."""

    model: Callable[[Episodes], pm.Model]
    spec: ModelSpec
    example: Callable[[], Episodes]
    about: str


def program(name: str) -> Program:
    """Return the program of a name.

    Examples
    --------
    >>> program("paper").spec
    ModelSpec(unmarked='outcome')
    """
    validate.choice("name of a model", name, NAMES)
    module = import_module(f"models.{name}")
    about = str(module.__doc__)
    if name in PAGES:
        return Program(module.model, module.SETTINGS, module.example, about)
    experiment = EXPERIMENTS[name]
    return Program(experiment.model, experiment.spec, lambda: example_of(experiment), about)


def example_of(experiment: Experiment) -> Episodes:
    """Draw episodes from the paper's model with the columns of an experiment."""
    return drawn(400, features=experiment.features, diagnostics=experiment.diagnostics)


def mode(model: pm.Model) -> pd.Series[float]:
    """Return the mode of a model on its parameters' own scales: the MAP, without the Jacobian of a transformation."""
    found = pm.find_MAP(model=model, progressbar=False, include_transformed=False, maxeval=50_000)
    labelled: dict[str, float] = {}
    for variable in model.free_RVs:
        name = variable.name
        dims = model.named_vars_to_dims.get(name, ())
        labels = [f"{name}[{label}]" for label in model.coords[dims[0]]] if dims else [name]
        labelled |= dict(zip(labels, np.ravel(found[name]), strict=True))
    return pd.Series(labelled, dtype=float, name="mode")


def draws(model: pm.Model, spec: ModelSpec, *, count: int, tune: int, chains: int, seed: int) -> xr.DataTree:
    """Draw from the posterior by nutpie, and say what the model is, so that the library's functions take the draws."""
    import nutpie

    settings = {"draws": count, "tune": tune, "chains": chains, "seed": seed, "progress_bar": False}
    tree = nutpie.sample(nutpie.compile_pymc_model(model), target_accept=0.9, save_warmup=False, **settings)
    posterior = tree["posterior"].to_dataset()
    dims = {"feature_mean": "feature", "feature_scale": "feature", "w": "diagnostic"}
    fixed = {name: dim for name, dim in dims.items() if name in model.named_vars and name not in posterior}
    coords = {dim: list(model.coords[dim]) for dim in ("feature", "diagnostic")}
    constant = xr.Dataset({name: (dim, model[name].get_value()) for name, dim in fixed.items()}, coords=coords)
    tree["constant_data"] = xr.DataTree(constant)
    labels = {dim: names for dim, names in coords.items() if dim in posterior.dims}
    tree["posterior"] = xr.DataTree(posterior.assign_coords(labels))
    tree.attrs = {"inference_method": "nuts", **spec.as_attrs()}
    return tree


def write_report(tree: xr.DataTree, bands: pd.DataFrame, about: str, path: Path) -> None:
    """Write one page: the model in words, the summary, what the chains look like, and the bands of one episode."""
    import arviz as az  # type: ignore[import-untyped]
    import matplotlib.pyplot as plt

    names = [name for name, array in tree["posterior"].data_vars.items() if not str(name).endswith("_offset")]
    summary = az.summary(tree, var_names=names)
    pictures = []
    for plot in (az.plot_trace_dist, az.plot_rank, az.plot_forest, az.plot_energy):
        drawn_by = plot(tree) if plot is az.plot_energy else plot(tree, var_names=names)
        pictures.append(_picture(drawn_by.viz["figure"].item()))
    first = bands[bands["episode"] == bands["episode"].iloc[0]]
    figure, axes = plt.subplots(figsize=(6, 3), layout="constrained")
    axes.fill_between(first["step"], first["lower"], first["upper"], alpha=0.3, label="90%")
    axes.plot(first["step"], first["mean"], label="posterior mean")
    axes.set(xlabel="step", ylabel="q(t)", ylim=(0, 1), title=f"episode {first['episode'].iloc[0]}")
    axes.legend(frameon=False)
    pictures.append(_picture(figure))
    images = [f"data:image/png;base64,{picture}" for picture in pictures]
    with atomic_path(path) as temporary:
        temporary.write_text(_page(about, summary.to_html(), images), encoding="utf-8")


def _page(about: str, table: str, images: list[str]) -> str:
    from html import escape

    shown = "\n".join(f'<p><img src="{image}" style="max-width: 100%" alt=""></p>' for image in images)
    return (
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Report</title>"
        f"<body style='max-width: 60em; margin: auto; font-family: sans-serif'><pre>{escape(about)}</pre>"
        f"{table}{shown}</body></html>\n"
    )


def _picture(figure: object) -> str:
    import matplotlib.pyplot as plt

    buffer = BytesIO()
    figure.savefig(buffer, format="png", dpi=90)  # type: ignore[attr-defined]
    plt.close("all")
    return base64.b64encode(buffer.getvalue()).decode()


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line."""

    def error(self, message: str) -> NoReturn:
        raise TacitError(f"{message} (see python -m models --help)")


def main(words: Sequence[str] | None = None) -> int:
    """Run the program: exit code 0, or 2 for bad input, which is told in one line."""
    parser = _Parser(prog="python -m models", description=__doc__)
    parser.add_argument("name", choices=NAMES, help="which page, or experiment of the paper")
    parser.add_argument("episodes", nargs="?", help="a file of episodes; by default an example of its own")
    parser.add_argument("--map", action="store_true", help="find the mode")
    parser.add_argument("--sample", action="store_true", help="draw from the posterior; bands of q(t)")
    parser.add_argument("--report", action="store_true", help="the same, with a page of ArviZ's plots")
    parser.add_argument("--out", default="models-output", help="folder for what is written")
    for name, default in (("draws", 500), ("tune", 500), ("chains", 2), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default)
    try:
        given = parser.parse_args(words)
        one = program(given.name)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TacitWarning)
            episodes = one.example() if given.episodes is None else Episodes.read(given.episodes)
        model = one.model(episodes)
        out = Path(given.out)
        out.mkdir(parents=True, exist_ok=True)
        if given.map or not (given.sample or given.report):
            found = mode(model)
            print(found.round(4).to_string())
            found.to_csv(out / "map.csv")
        if given.sample or given.report:
            tree = draws(model, one.spec, count=given.draws, tune=given.tune, chains=given.chains, seed=given.seed)
            tree.to_netcdf(out / "posterior.nc", engine="h5netcdf")
            band = credible_band(tree, episodes, probability=0.9).to_dataframe().dropna().reset_index()
            band.to_csv(out / "bands.csv", index=False)
            if given.report:
                write_report(tree, band, one.about, out / "report.html")
        print(f"written to {out}: {', '.join(sorted(each.name for each in out.iterdir()))}")
    except TacitError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
