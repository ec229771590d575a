"""The report: a posterior, its checks and its scores as one HTML file that needs nothing else."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import arviz_plots
import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from bayes_tacit import validate
from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.validation import ONE_SIDED, OUTCOME_MEANINGS
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.estimates.completion import completed, prior_of
from bayes_tacit.estimates.map_fit import MapFit
from bayes_tacit.files import save_page, writable_page
from bayes_tacit.html import Missing, Picture, render, table_of
from bayes_tacit.model.design import Design
from bayes_tacit.model.families import family_named
from bayes_tacit.model.spec import spec_of
from bayes_tacit.review import style
from bayes_tacit.review.checks import run_checks
from bayes_tacit.review.findings import CheckResult, by_parameter, flat_draws, headline
from bayes_tacit.review.plots import plot_handoff_score, plot_weights, tails
from bayes_tacit.review.style import SCORE, WIDE, Panel, draw_rows, embedded, lazily, redrawn, regridded
from bayes_tacit.scores.bands import crossing_probability
from bayes_tacit.scores.score import incidence

PARTS = {
    "verdict": "Verdict",
    "to-do": "What to do",
    "parameters": "Parameters",
    "scores": "Handoff scores",
    "checks": "Checks",
    "sampling": "Sampling",
    "data": "Data",
    "provenance": "Provenance",
}
"""The sections, in their order."""
PROBABILITY = 0.9
MOST_SHOWN, COLUMNS = 40, 4
UNMARKED = {"due": "due by the end of the rollout", "outcome": "its outcome alone"}
FORMATS = {"elpd": ".2f", "expected": ".1f", "pareto_k": ".2f", "z": ".2f", "middle": ".3g"}


def report(
    tree: xr.DataTree,
    episodes: Episodes,
    path: str | os.PathLike[str],
    *,
    fit: MapFit | None = None,
    alpha: float | None = None,
    chosen: Iterable[object] | None = None,
    title: str | None = None,
    overwrite: bool = True,
    results: Sequence[CheckResult] | None = None,
    paper: xr.DataTree | None = None,
) -> Path:
    """Write a report on a posterior: one HTML file that needs neither a network nor other files.

    It holds the verdict in one sentence, what to do about each warning, the parameters with a forest plot, the
    handoff scores of some episodes, every check (see `run_checks`), trace, rank and energy plots, a summary of the
    data, and where all of it came from. If the draws cannot be trusted, it says what could not be computed.

    Parameters
    ----------
    tree
        A posterior as `sample_posterior` gives it.
    episodes
        The episodes that it was fitted on.
    path
        The file to write, .html or .htm. It appears under its name only once it is complete.
    fit
        The point estimate to compare with; by default one is made.
    alpha
        A decision threshold to draw into the scores.
    chosen
        Ids of the episodes whose scores are drawn; by default a few that differ.
    title
        Heading of the report.
    overwrite
        Whether an existing file may be replaced.
    results
        What `run_checks` gave for the same posterior and episodes, if it was run already.
    paper
        The posterior of the same model with the paper's memory, to compare one with another memory with by LOO; as for
        `run_checks`.

    Returns
    -------
    pathlib.Path
        The file.

    Raises
    ------
    InvalidDataError
        If the tree is no posterior of this model or was fitted on other episodes, or an id is unknown.
    FileFormatError
        If the file cannot be written.

    Examples
    --------
    >>> from bayes_tacit import load_example, report, sample_posterior
    >>> episodes = load_example()
    >>> report(sample_posterior(episodes), episodes, "report.html", alpha=0.3)  # doctest: +SKIP
    """
    target = writable_page(path, overwrite=overwrite)
    tree = completed(tree, episodes)
    if alpha is not None:
        validate.threshold("alpha", alpha)
    shown = episodes.select(shown_episodes(episodes, chosen))
    results = run_checks(tree, episodes, fit, paper) if results is None else results
    counts = f"{len(episodes):,} episodes, {tree['constant_data'].sizes['timed']:,} of them timed"
    written = f"Written by bayes_tacit {version('bayes_tacit')} at {datetime.now(UTC):%Y-%m-%d %H:%M} UTC."
    sick = results[0].passed is False
    page = render(
        "report.html",
        title="Posterior of the handoff model" if title is None else title,
        subtitle=f"{counts}. {written}",
        parts=PARTS,
        headline=headline(results),
        checks=_checks(results, sick=sick),
        parameters=_parameters(tree, parameter_table(tree, results[0].table), sick=sick),
        scores=_scores(tree, shown, alpha, sick=sick),
        sampling=_sampling(tree, sick=sick),
        data=_data(episodes),
        provenance=_provenance(tree),
    )
    save_page(target, page)
    return target


def _parameters(tree: xr.DataTree, summary: pd.DataFrame, *, sick: bool) -> dict[str, object]:
    ends = {name: f"{level:.0%}" for name, level in zip(("lower", "upper"), tails(PROBABILITY), strict=True)}
    shown = summary.rename(columns={**ends, "rhat": "R-hat", "ess_bulk": "bulk ESS", "ess_tail": "tail ESS"})
    formats = {"R-hat": ".3f", "bulk ESS": ",.0f", "tail ESS": ",.0f"}
    caption = (
        f"Posterior mean, sd and {PROBABILITY:.0%} equal-tailed interval; gamma and beta of a feature are per sd of it"
    )
    alt = f"Forest plot: the posterior mean of {{}} with its {PROBABILITY:.0%} interval."
    pictures = [
        _picture(lazily(draw, *of), alt.format(what), caption, sick=sick)
        for draw, of, what, caption in (
            (_draw_weights, (tree,), "each diagnostic's weight", "Weights of the diagnostics."),
            (_draw_others, (summary,), "every other parameter", "The other parameters."),
        )
    ]
    return {"table": table_of(shown, caption, formats=formats), "pictures": pictures}


def _draw_weights(tree: xr.DataTree) -> Figure:
    """Draw the weights with their intervals."""
    weights = tree["posterior" if "w" in tree["posterior"] else "constant_data"]["diagnostic"].size
    figure = Figure(figsize=(style.page_width(), 1.4 + 0.42 * weights), layout="constrained")
    axis = plot_weights(tree, probability=PROBABILITY, ax=figure.subplots())
    names = [style.shortened(label.get_text(), 16 if style.is_narrow() else 40) for label in axis.get_yticklabels()]
    axis.set_yticks(axis.get_yticks(), names, parse_math=False)
    if style.is_narrow():
        style.legend_under(axis)
    return figure


def _draw_others(summary: pd.DataFrame) -> Figure:
    """Draw the other parameters with their intervals."""
    rows = summary[~summary.index.str.startswith("w[")]
    reach = np.stack([rows["mean"] - rows["lower"], rows["upper"] - rows["mean"]]).clip(min=0)
    label = f"posterior mean and {PROBABILITY:.0%} interval; gamma[.] and beta[.] per sd of a feature"
    return draw_rows(rows.index, Panel(label, {"_": (rows["mean"], reach, SCORE)}, (), 0.0))


def _scores(tree: xr.DataTree, episodes: Episodes, alpha: float | None, *, sick: bool) -> dict[str, object]:
    shown = _attempt(lambda: chosen_table(tree, episodes, alpha), "Handoff scores", sick=sick)
    decision = "" if alpha is None else f" and where its mean first reaches alpha = {alpha:.3g}"
    lead = (
        f"q(t) is the probability that Strong succeeds and the threshold was crossed by step t. Shown are its "
        f"posterior mean with a {PROBABILITY:.0%} band, its ceiling pi, the teacher's window where there is "
        f"one{decision}. AB tells who solves the task alone: A is 1 where Cheap does, B is 1 where Strong does."
    )
    if isinstance(shown, Missing):
        return {"lead": lead, "pictures": [], "table": shown}
    pictures = []
    for episode, (_, row) in zip(episodes.ids.tolist(), shown.iterrows(), strict=True):
        name = f"{episode}, AB = {row['AB']}"
        alt = (
            f"Handoff score of episode {episode} (AB = {row['AB']}) over its {row['steps']} steps with a "
            f"{PROBABILITY:.0%} band; teacher window: {row['teacher window']}."
        )
        pictures.append(
            _picture(lazily(_draw_score, tree, episodes, episode, alpha, name), alt, narrow="same", sick=sick)
        )
    caption = "The episodes shown" + ("" if alpha is None else f", and when they are handed over at {alpha:.3g}")
    return {"lead": lead, "pictures": pictures, "table": table_of(shown, caption)}


def _checks(results: Sequence[CheckResult], *, sick: bool) -> list[dict[str, object]]:
    return [
        {
            "result": result,
            "picture": None
            if result.figure is None
            else _picture(result.figure, f"Figure of the check {result.name}: {result.sentence}", sick=sick),
            "table": None
            if result.table.empty or number == 0
            else table_of(
                result.table,
                f"{result.name}: the numbers",
                formats=FORMATS,
                labelled=result.table.index.name is not None,
            ),
        }
        for number, result in enumerate(results)
    ]


def _sampling(tree: xr.DataTree, *, sick: bool) -> list[Picture | Missing]:
    grids = {"kind": "png", "narrow": "regridded"}
    plots: tuple[tuple[Callable[[xr.DataTree], Figure], str, str, dict[str, Any]], ...] = (
        (
            _draw_traces,
            "Trace plots: every parameter along the draws of each chain.",
            "Traces. Each chain has a colour; chains that sampled well look alike and have no trend.",
            grids,
        ),
        (
            _draw_ranks,
            "Rank plots: for every parameter, how the ranks of each chain's draws depart from uniform.",
            "Ranks, as the difference from uniform. Lines that stay near zero mean that the chains agree; p is that of "
            "a test of it.",
            grids,
        ),
        (
            _draw_energy,
            "Energy plot: the marginal energy and its changes from draw to draw, and the BFMI of each chain.",
            "Energy. Both distributions alike, and BFMI right of the dashed line, mean that the tails were explored.",
            {"narrow": "same"},
        ),
    )
    return [_picture(lazily(draw, tree), alt, caption, sick=sick, **how) for draw, alt, caption, how in plots]


def _draw_traces(tree: xr.DataTree) -> Figure:
    """Draw every parameter along every chain."""
    return _grid(arviz_plots.plot_trace, tree, "draw", {"trace": {"width": 0.4, "alpha": 0.8}})


def _draw_ranks(tree: xr.DataTree) -> Figure:
    """Draw how the ranks of each chain's draws depart from uniform."""
    visuals = {"ecdf_lines": {"width": 1.2}, "remove_axis": False}
    figure = _grid(arviz_plots.plot_rank, tree, "rank among all draws", visuals)
    # One scale for all, and written: a departure that looks large is not, where nothing is.
    shown = [axis for axis in figure.axes if axis.lines]
    reach = 1.15 * max(float(np.abs(line.get_ydata()).max()) for axis in shown for line in axis.lines)
    for axis in shown:
        axis.set(ylim=(-reach, 1.5 * reach), ylabel="")
        axis.yaxis.set_major_locator(MaxNLocator(nbins=3))
        axis.tick_params(axis="y", left=True, labelleft=True)
        for text in axis.texts:
            text.set_text(text.get_text().partition("(")[0].replace("=", " = "))
            text.set(transform=axis.transAxes, position=(0.03, 0.97), verticalalignment="top")
    figure.supylabel("share of draws up to the rank, minus the rank", fontsize=10)
    return figure


def _draw_energy(tree: xr.DataTree) -> Figure:
    """Draw the distribution of the energy and of its changes from draw to draw."""
    size = {"figsize": (WIDE, 3.2), "figsize_units": "inches"}
    shown = arviz_plots.plot_energy(tree, backend="matplotlib", figure_kwargs=size)
    figure: Figure = shown.viz["figure"].item()
    points, distribution = figure.axes[:2]
    chains = tree["posterior"].sizes["chain"]
    points.set_yticks(range(chains))
    points.set(title="BFMI by chain", ylim=(-0.5, chains - 0.5))
    distribution.set(xlabel="energy, centered", title="Energy")
    return figure


def _draw_score(tree: xr.DataTree, episodes: Episodes, episode: object, alpha: float | None, name: str) -> Figure:
    """Draw the handoff score of one episode with its band, the teacher's window and alpha."""
    figure = Figure(figsize=(WIDE / 2, 3.1), layout="constrained")
    axis = plot_handoff_score(tree, episodes, episode, alpha=alpha, probability=PROBABILITY, ax=figure.subplots())
    axis.set_title(style.shortened(name, 48), parse_math=False)
    style.legend_under(axis, columns=3)
    return figure


def _grid(plot: Callable[..., Any], tree: xr.DataTree, xlabel: str, visuals: dict[str, Any]) -> Figure:
    parameters = by_parameter(tree["posterior"].to_dataset())
    # A variable of a DataTree cannot have any name, so the parameters' names are only written as titles.
    numbered = {f"parameter {number}": values for number, values in enumerate(parameters.values())}
    size = {"figsize": (WIDE, 0.5 + 1.5 * -(-len(parameters) // COLUMNS)), "figsize_units": "inches"}
    given = xr.DataTree.from_dict({"posterior": xr.Dataset(numbered)})
    shown = plot(given, backend="matplotlib", col_wrap=COLUMNS, visuals=visuals, figure_kwargs=size)
    figure: Figure = shown.viz["figure"].item()
    for variable, name in zip(numbered, parameters, strict=True):
        axis = shown.viz["plot"][variable].item()
        axis.set_xlabel("")
        axis.set_title(style.shortened(name, 22), parse_math=False)
        axis.tick_params(labelbottom=True)
        axis.xaxis.set_major_locator(MaxNLocator(nbins=2, steps=[1, 5, 10]))
    figure.supxlabel(xlabel, fontsize=10)
    return figure


def _data(episodes: Episodes) -> dict[str, object]:
    summary = episodes.summary()
    outcomes = pd.DataFrame(
        {
            "meaning": [(OUTCOME_MEANINGS | ONE_SIDED)[outcome] for outcome in summary.outcomes],
            "episodes": list(summary.outcomes.values()),
            "share": [f"{count / summary.n_episodes:.1%}" for count in summary.outcomes.values()],
        },
        index=pd.Index(list(summary.outcomes), name="AB"),
    )
    timing = pd.DataFrame(
        {"episodes": [summary.one_step_windows, summary.range_windows, summary.without_window, summary.right_censored]},
        index=pd.Index(
            ["01, window of one step", "01, window of several steps", "01, no window", "11, crosses past the end"],
            name="what is known of the threshold",
        ),
    )
    features = pd.DataFrame(
        [(f.mean, f.sd, f.min, f.max) for f in summary.features],
        columns=["mean", "sd", "min", "max"],
        index=pd.Index([f.name for f in summary.features], name="feature"),
    )
    diagnostics = pd.DataFrame(
        {"mean": [d.mean for d in summary.diagnostics], "nonzero": [f"{d.nonzero:.1%}" for d in summary.diagnostics]},
        index=pd.Index([d.name for d in summary.diagnostics], name="diagnostic"),
    )
    general = dict.fromkeys(("mean", "sd", "min", "max"), ".4g")
    tables = [
        table_of(outcomes, "Outcomes of Cheap (A) and Strong (B)"),
        table_of(timing, "Evidence about the threshold"),
        *([table_of(features, "Task features, before standardization", formats=general)] if len(features) else []),
        table_of(diagnostics, "Diagnostics, over all steps", formats=general),
    ]
    lead = f"{summary.n_episodes:,} episodes; number of steps {summary.steps}."
    return {"lead": lead, "tables": tables, "notes": summary.notes}


def _provenance(tree: xr.DataTree) -> dict[str, object]:
    attrs = {str(name): value for name, value in tree.attrs.items()}
    spec = spec_of(tree)
    memory = "all of the past counts (1)" if spec.memory == 1 else f"{spec.memory}"
    made = {"Features": spec.features.formula} if isinstance(spec.features, Design) else {}
    if spec.groups is not None:
        made["Groups"] = f"{spec.groups}, with partially pooled intercepts"
    return {
        "Threshold family": family_named(spec.family).label,
        "Timing": spec.timing,
        "Memory": f"{memory}, with a clock" if spec.clock else memory,
        "AB = 01 without a window": UNMARKED[spec.unmarked],
        "Prior": str(prior_of(tree)),
        "Weights": "learned" if "w" in tree["posterior"] else "fixed",
        **made,
        "Sampler": str(attrs["sampler"])
        + (f", target acceptance {attrs['target_accept']:g}" if "target_accept" in attrs else ""),
        "Chains": f"{attrs['chains']} of {attrs['draws']:,} draws"
        + (f" after {attrs['tune']:,} of tuning" if "tune" in attrs else ""),
        "Seed": attrs.get("seed", "not known"),
        "Sampled": attrs["created_at"],
        "Versions": ", ".join(
            f"{name.removesuffix('_version')} {value}"
            for name, value in attrs.items()
            if name.endswith("_version") and name != "schema_version"
        ),
        "Data fingerprint": attrs["data_fingerprint"],
    }


def _picture(
    draw: Callable[[], Figure],
    alt: str,
    caption: str = "",
    *,
    kind: Literal["svg", "png"] = "svg",
    narrow: Literal["redrawn", "regridded", "same"] = "redrawn",
    sick: bool,
) -> Picture | Missing:
    on_phone = {"redrawn": redrawn(draw), "regridded": regridded, "same": None}[narrow]
    what = alt.split(":")[0].rstrip(".")
    return _attempt(lambda: embedded(draw, alt, caption, kind=kind, narrow=on_phone), what, sick=sick)


def _attempt[T](make: Callable[[], T], what: str, *, sick: bool) -> T | Missing:
    # Sick draws break arithmetic and libraries in ways that are not ours to list: the page says what could not be made.
    # Of sound ones an error is a defect, and is raised.
    if not sick:
        return make()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make()
    except Exception as error:
        return Missing(what, (str(error) or type(error).__name__).rstrip("."))


def parameter_table(tree: xr.DataTree, diagnostics: pd.DataFrame) -> pd.DataFrame:
    """Return mean, sd and equal-tailed interval of every parameter beside the sampler's diagnostics, weights first."""
    posterior = tree["posterior"].to_dataset()
    names = [name for name in ("w", "gamma0", "gamma", "beta0", "beta", "s", "delta") if name in posterior]
    rows = {}
    for label, values in by_parameter(posterior[names]).items():
        draws = flat_draws(values)
        rows[label] = [draws.mean(), draws.std(ddof=1), *np.quantile(draws, tails(PROBABILITY))]
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["mean", "sd", "lower", "upper"])
    return table.join(diagnostics).rename_axis("parameter")


def shown_episodes(episodes: Episodes, chosen: Iterable[object] | None) -> list[object]:
    """Return the ids of the episodes to show: `chosen`, or some that differ.

    By default they are three with a window (early, halfway and late in the rollout), two with AB = 11 (a short and a
    long rollout) and one with AB = 00, as far as there are such.
    """
    ids = episodes.ids.tolist()
    if chosen is not None:
        wanted = [chosen] if isinstance(chosen, str) else list(chosen)
        unknown = [episode for episode in wanted if episode not in set(ids)]
        if unknown:
            raise InvalidDataError(f"ids of the episodes, such as {ids[0]!r}", field="chosen", value=unknown)
        if len(wanted) > MOST_SHOWN:
            raise InvalidDataError(f"at most {MOST_SHOWN}", field="number of chosen episodes", value=len(wanted))
        return list(dict.fromkeys(wanted))
    place = episodes.dataset["window_start"].values / episodes.n_steps
    outcomes = episodes.outcomes
    picked = [
        *_spread(np.flatnonzero(episodes.has_window), place, (0.1, 0.5, 0.9)),
        *_spread(np.flatnonzero(outcomes == "11"), episodes.n_steps, (0.25, 0.75)),
        *_spread(np.flatnonzero(outcomes == "00"), episodes.n_steps, (0.5,)),
    ]
    return [ids[position] for position in dict.fromkeys(picked)]


def chosen_table(tree: xr.DataTree, episodes: Episodes, alpha: float | None) -> pd.DataFrame:
    """Return a table of the episodes that are shown, and of when each would be handed over at `alpha`."""
    start, end = (episodes.dataset[name].values for name in ("window_start", "window_end"))
    table = pd.DataFrame(
        {
            "AB": episodes.outcomes,
            "steps": episodes.n_steps,
            "teacher window": [_window(*bounds) for bounds in zip(start, end, strict=True)],
            "mean pi": incidence(tree, episodes).mean(("chain", "draw")).values,
        },
        index=pd.Index(list(map(str, episodes.ids)), name="episode"),
    )
    if alpha is not None:
        crossing = crossing_probability(tree, episodes, alpha)
        by_step = crossing["by_step"].fillna(1.0).values
        never = crossing["never"].values
        table["likely handoff"] = [
            "never" if share >= 0.5 else f"step {int((row < 0.5).sum())}"
            for row, share in zip(by_step, never, strict=True)
        ]
        table["P(no handoff)"] = never
    return table


def _spread(positions: np.ndarray, by: np.ndarray, quantiles: tuple[float, ...]) -> list[int]:
    if not len(positions):
        return []
    order = positions[np.argsort(by[positions], kind="stable")]
    return [int(order[round(q * (len(order) - 1))]) for q in quantiles]


def _window(start: float, end: float) -> str:
    if np.isnan(start):
        return "none"
    return f"step {start:.0f}" if start == end else f"steps {start:.0f} to {end:.0f}"
