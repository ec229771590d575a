"""The sections of the report, each a piece of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
import xarray as xr

from bayes_tacit.data.episodes import Episodes
from bayes_tacit.data.episodes.summary import OUTCOME_MEANINGS
from bayes_tacit.model.families import family_named
from bayes_tacit.review.checks import CheckResult
from bayes_tacit.review.checks.log_prior import prior_of
from bayes_tacit.review.reporting import figures
from bayes_tacit.review.reporting.contents import PROBABILITY, Headline, chosen_table
from bayes_tacit.review.reporting.html import bullets, listing, picture, prose, section, table, tag, text

MARKS = {True: ("good", "Passed"), False: ("bad", "Failed"), None: ("open", "Not judged")}
DIAGNOSTIC_FORMATS = {"rhat": ".3f", "ess_bulk": ",.0f", "ess_tail": ",.0f"}
FORMATS = {"elpd": ".2f", "pareto_k": ".2f", "z": ".2f", "middle": ".3g", **DIAGNOSTIC_FORMATS}


def verdict(found: Headline, results: Sequence[CheckResult]) -> str:
    """Say in one sentence whether to trust it, and list the checks."""
    words = {"good": "Trust it. ", "warning": "Trust it with care. ", "bad": ""}
    badges = bullets(
        tag("a", _badge(result.passed), f" {text(result.name)}", href=f"#check-{number}")
        for number, result in enumerate(results)
    )
    box = tag(
        "div",
        tag("p", tag("strong", text(words[found.level])), prose(found.sentence)),
        class_=f"verdict {found.level}",
        role="status",
    )
    return section("verdict", "Verdict", box, tag("div", badges, class_="badges"))


def to_do(results: Sequence[CheckResult]) -> str:
    """Say what to do about each warning."""
    open_ones = [(number, result) for number, result in enumerate(results) if result.advice]
    if not open_ones:
        return section("to-do", "What to do", tag("p", "Nothing: no check gave a warning."))
    items = (
        tag("strong", tag("a", text(result.name), href=f"#check-{number}")) + f": {prose(result.advice)}"
        for number, result in open_ones
    )
    return section("to-do", "What to do", bullets(items))


def data(episodes: Episodes) -> str:
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
        table(outcomes, "Outcomes of Cheap (A) and Strong (B)"),
        table(timing, "Evidence about the threshold"),
        *([table(features, "Task features, before standardization", formats=general)] if len(features) else []),
        table(diagnostics, "Diagnostics, over all steps", formats=general),
    ]
    notes = [tag("p", "Unusual in the data:"), bullets(map(text, summary.notes))] if summary.notes else []
    lead = tag("p", text(f"{summary.n_episodes:,} episodes; number of steps {summary.steps}."))
    return section("data", "Data", lead, tag("div", *tables, class_="columns"), *notes)


UNMARKED = {"due": "due by the end of the rollout", "outcome": "its outcome alone"}


def _memory(attrs: dict[str, object]) -> str:
    rho = attrs.get("memory", 1.0)
    kept = "all of the past counts (1)" if rho == 1 else f"{rho}"
    return f"{kept}, with a clock" if attrs.get("clock") else kept


def provenance(tree: xr.DataTree) -> str:
    """Say where the posterior came from."""
    attrs = {str(name): value for name, value in tree.attrs.items()}
    run = {
        "Threshold family": family_named(attrs["family"]).label,
        "Timing": attrs["timing"],
        "Memory": _memory(attrs),
        "AB = 01 without a window": UNMARKED[attrs.get("unmarked", "outcome")],
        "Prior": str(prior_of(tree)),
        "Weights": "learned" if "w" in tree["posterior"] else "fixed",
        "Sampler": f"{attrs['sampler']}, target acceptance {attrs['target_accept']:g}",
        "Chains": f"{attrs['chains']} of {attrs['draws']:,} draws after {attrs['tune']:,} of tuning",
        "Seed": attrs["seed"],
        "Sampled": attrs["created_at"],
        "Versions": ", ".join(
            f"{name.removesuffix('_version')} {value}"
            for name, value in attrs.items()
            if name.endswith("_version") and name != "schema_version"
        ),
        "Data fingerprint": attrs["data_fingerprint"],
    }
    return section("provenance", "Provenance", listing(run))


def parameters(tree: xr.DataTree, summary: pd.DataFrame) -> str:
    """Tabulate and draw the parameters."""
    ends = {"lower": f"{(1 - PROBABILITY) / 2:.0%}", "upper": f"{(1 + PROBABILITY) / 2:.0%}"}
    shown = summary.rename(columns={**ends, "rhat": "R-hat", "ess_bulk": "bulk ESS", "ess_tail": "tail ESS"})
    formats = {"R-hat": ".3f", "bulk ESS": ",.0f", "tail ESS": ",.0f"}
    caption = f"Posterior mean, sd and {PROBABILITY:.0%} equal-tailed interval; gamma and beta are per sd of a feature"
    legend = bullets(
        [
            f"{tag('code', 'w')} weighs the diagnostics; risk is their weighted sum.",
            f"{tag('code', 'gamma')} says how likely Strong is to succeed at all.",
            f"{tag('code', 'beta')} and {tag('code', 's')} say at which cumulative risk the handoff is due.",
        ]
    )
    return section(
        "parameters",
        "Parameters",
        legend,
        table(shown, caption, formats=formats),
        picture(
            figures.drawn(figures.weights, tree),
            f"Forest plot: the posterior mean of each diagnostic's weight with its {PROBABILITY:.0%} interval.",
            "Weights of the diagnostics.",
        ),
        picture(
            figures.drawn(figures.coefficients, summary),
            f"Forest plot: the posterior mean of every other parameter with its {PROBABILITY:.0%} interval.",
            "The other parameters.",
        ),
    )


def sampling(tree: xr.DataTree) -> str:
    """Draw what the sampler did."""
    return section(
        "sampling",
        "Sampling",
        picture(
            figures.drawn(figures.traces, tree),
            "Trace plots: every parameter along the draws of each chain.",
            "Traces. Each chain has a colour; chains that sampled well look alike and have no trend.",
            kind="png",
        ),
        picture(
            figures.drawn(figures.ranks, tree),
            "Rank plots: for every parameter, how the ranks of each chain's draws depart from uniform.",
            "Ranks, as the difference from uniform. Lines that stay near zero mean that the chains agree; p is that of "
            "a test of it.",
        ),
        picture(
            figures.drawn(figures.energy, tree),
            "Energy plot: the marginal energy and its changes from draw to draw, and the BFMI of each chain.",
            "Energy. Both distributions alike, and BFMI right of the dashed line, mean that the tails were explored.",
        ),
    )


def checks(results: Sequence[CheckResult]) -> str:
    """Show every check, that of the sampler first, with its sentence, table and figure."""
    sampler, *others = results
    # Its numbers are in the table of parameters.
    shown = [replace(sampler, table=sampler.table[:0]), *others]
    return section("checks", "Checks", *(_check(number, result) for number, result in enumerate(shown)))


def scores(tree: xr.DataTree, episodes: Episodes, alpha: float | None) -> str:
    """Draw the handoff scores of some episodes."""
    shown = chosen_table(tree, episodes, alpha)
    decision = "" if alpha is None else f" and where its mean first reaches alpha = {alpha:g}"
    lead = tag(
        "p",
        text(
            f"q(t) is the probability that Strong succeeds and the threshold was crossed by step t. Shown are its "
            f"posterior mean with a {PROBABILITY:.0%} band, its ceiling pi, the teacher's window where there is "
            f"one{decision}."
        ),
    )
    panels = []
    for position, episode in enumerate(episodes.ids.tolist()):
        row = shown.iloc[position]
        name = f"{episode}, AB = {row['AB']}"
        alt = (
            f"Handoff score of episode {episode} (AB = {row['AB']}) over its {row['steps']} steps with a "
            f"{PROBABILITY:.0%} band; teacher window: {row['teacher window']}."
        )
        panels.append(picture(figures.drawn(figures.score, tree, episodes, episode, alpha, name), alt))
    return section(
        "scores",
        "Handoff scores",
        lead,
        tag("div", *panels, class_="panels"),
        table(shown, "The episodes shown" + ("" if alpha is None else f", and when they are handed over at {alpha:g}")),
    )


def _check(number: int, result: CheckResult) -> str:
    parts = [tag("p", _badge(result.passed), " ", prose(result.sentence))]
    if result.advice:
        parts.append(tag("p", tag("strong", "What to do: "), prose(result.advice), class_="advice"))
    if result.figure is not None:
        parts.append(picture(result.figure, f"Figure of the check {result.name}: {result.sentence}"))
    if len(result.table):
        named = result.table.index.name is not None
        parts.append(table(result.table, f"{result.name}: the numbers", formats=FORMATS, labelled=named))
    return section(f"check-{number}", result.name, *parts, level=3)


def _badge(passed: bool | None) -> str:
    kind, word = MARKS[passed]
    return tag("span", word, class_=f"badge {kind}")
