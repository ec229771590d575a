"""The sections of the report, each as the values that its part of the template is filled with."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Literal

import pandas as pd
import xarray as xr
from matplotlib.figure import Figure

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.validation import OUTCOME_MEANINGS
from bayes_tacit.estimates.posterior.log_prior import prior_of
from bayes_tacit.html.pieces import Missing, Picture, table_of
from bayes_tacit.model.design import Design
from bayes_tacit.model.families import family_named
from bayes_tacit.review.checks import CheckResult
from bayes_tacit.review.plots import posterior as figures
from bayes_tacit.review.plots.embedding import embedded, redrawn
from bayes_tacit.review.plots.rows import lazily
from bayes_tacit.review.plots.widths import regridded
from bayes_tacit.review.reporting.contents import PROBABILITY, chosen_table

DIAGNOSTIC_FORMATS = {"rhat": ".3f", "ess_bulk": ",.0f", "ess_tail": ",.0f"}
FORMATS = {"elpd": ".2f", "expected": ".1f", "pareto_k": ".2f", "z": ".2f", "middle": ".3g", **DIAGNOSTIC_FORMATS}


def parameters(tree: xr.DataTree, summary: pd.DataFrame, *, sick: bool) -> dict[str, object]:
    """Tabulate and draw the parameters."""
    ends = {"lower": f"{(1 - PROBABILITY) / 2:.0%}", "upper": f"{(1 + PROBABILITY) / 2:.0%}"}
    shown = summary.rename(columns={**ends, "rhat": "R-hat", "ess_bulk": "bulk ESS", "ess_tail": "tail ESS"})
    formats = {"R-hat": ".3f", "bulk ESS": ",.0f", "tail ESS": ",.0f"}
    caption = (
        f"Posterior mean, sd and {PROBABILITY:.0%} equal-tailed interval; gamma and beta of a feature are per sd of it"
    )
    pictures = [
        _picture(
            lazily(figures.draw_weights, tree),
            f"Forest plot: the posterior mean of each diagnostic's weight with its {PROBABILITY:.0%} interval.",
            "Weights of the diagnostics.",
            sick=sick,
        ),
        _picture(
            lazily(figures.draw_coefficients, summary),
            f"Forest plot: the posterior mean of every other parameter with its {PROBABILITY:.0%} interval.",
            "The other parameters.",
            sick=sick,
        ),
    ]
    return {"table": table_of(shown, caption, formats=formats), "pictures": pictures}


def scores(tree: xr.DataTree, episodes: Episodes, alpha: float | None, *, sick: bool) -> dict[str, object]:
    """Draw the handoff scores of some episodes."""
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
    for position, episode in enumerate(episodes.ids.tolist()):
        row = shown.iloc[position]
        name = f"{episode}, AB = {row['AB']}"
        alt = (
            f"Handoff score of episode {episode} (AB = {row['AB']}) over its {row['steps']} steps with a "
            f"{PROBABILITY:.0%} band; teacher window: {row['teacher window']}."
        )
        pictures.append(
            _picture(lazily(figures.draw_score, tree, episodes, episode, alpha, name), alt, narrow="same", sick=sick)
        )
    caption = "The episodes shown" + ("" if alpha is None else f", and when they are handed over at {alpha:.3g}")
    return {"lead": lead, "pictures": pictures, "table": table_of(shown, caption)}


def checks(results: Sequence[CheckResult], *, sick: bool) -> list[dict[str, object]]:
    """Show every check with its sentence, table and figure; the sampler's numbers are in the table of parameters."""
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


def sampling(tree: xr.DataTree, *, sick: bool) -> list[Picture | Missing]:
    """Draw what the sampler did."""
    return [
        _picture(
            lazily(figures.draw_traces, tree),
            "Trace plots: every parameter along the draws of each chain.",
            "Traces. Each chain has a colour; chains that sampled well look alike and have no trend.",
            kind="png",
            narrow="regridded",
            sick=sick,
        ),
        _picture(
            lazily(figures.draw_ranks, tree),
            "Rank plots: for every parameter, how the ranks of each chain's draws depart from uniform.",
            "Ranks, as the difference from uniform. Lines that stay near zero mean that the chains agree; p is that of "
            "a test of it.",
            kind="png",
            narrow="regridded",
            sick=sick,
        ),
        _picture(
            lazily(figures.draw_energy, tree),
            "Energy plot: the marginal energy and its changes from draw to draw, and the BFMI of each chain.",
            "Energy. Both distributions alike, and BFMI right of the dashed line, mean that the tails were explored.",
            narrow="same",
            sick=sick,
        ),
    ]


def data(episodes: Episodes) -> dict[str, object]:
    """Summarize the episodes."""
    summary = episodes.summary()
    outcomes = pd.DataFrame(
        {
            "meaning": [OUTCOME_MEANINGS[outcome] for outcome in summary.outcomes],
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


UNMARKED = {"due": "due by the end of the rollout", "outcome": "its outcome alone"}


def _memory(attrs: dict[str, object]) -> str:
    rho = attrs.get("memory", 1.0)
    kept = "all of the past counts (1)" if rho == 1 else f"{rho}"
    return f"{kept}, with a clock" if attrs.get("clock") else kept


def _design(attrs: dict[str, object]) -> dict[str, object]:
    """Say how features were made, where a formula or groups say so."""
    out: dict[str, object] = {}
    if "design" in attrs:
        out["Features"] = Design.from_json(attrs["design"]).formula
    if attrs.get("groups") is not None:
        out["Groups"] = f"{attrs['groups']}, with partially pooled intercepts"
    return out


def provenance(tree: xr.DataTree) -> dict[str, object]:
    """Say where the posterior came from."""
    attrs = {str(name): value for name, value in tree.attrs.items()}
    return {
        "Threshold family": family_named(attrs["family"]).label,
        "Timing": attrs["timing"],
        "Memory": _memory(attrs),
        "AB = 01 without a window": UNMARKED[attrs.get("unmarked", "outcome")],
        "Prior": str(prior_of(tree)),
        "Weights": "learned" if "w" in tree["posterior"] else "fixed",
        **_design(attrs),
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
    """Draw a picture for the page and for a phone, unless it is as narrow as one."""
    on_phone = {"redrawn": redrawn(draw), "regridded": regridded, "same": None}[narrow]
    what = alt.split(":")[0].rstrip(".")
    return _attempt(lambda: embedded(draw, alt, caption, kind=kind, narrow=on_phone), what, sick=sick)


def _attempt[T](make: Callable[[], T], what: str, *, sick: bool) -> T | Missing:
    """Make a part of the page; of draws that the sampler's check failed, say why if it cannot be made.

    Sick draws break arithmetic and libraries in ways that are not ours to list. Of sound ones an error is a defect, and
    is raised.
    """
    if not sick:
        return make()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make()
    except Exception as error:
        return Missing(what, (str(error) or type(error).__name__).rstrip("."))
