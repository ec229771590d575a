"""Routers of random numbers, one of every rule, episodes for them, and Hypothesis strategies for both."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import xarray as xr
from hypothesis import strategies as st
from simulate import quietly

from bayes_tacit import Episodes, Router
from bayes_tacit.data.timing import TIMINGS
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.router import Rule, Start, rules
from bayes_tacit.router.router import CALLS
from bayes_tacit.router.rule import RULES, Chance, Line
from bayes_tacit.router.rules import Experience
from bayes_tacit.router.tacit import HandoffScore, LandmarkScore


def random_rule(
    rng: np.random.Generator,
    *,
    draws: int = 1,
    diagnostics: int = 3,
    features: int = 2,
    family: str = "lognormal",
    rule: str | float = "mean",
    memory: float | str = 1.0,
    clock: bool = False,
    started: bool = False,
) -> HandoffScore:
    """TACIT-Switch's rule with a score that goes from near 0 to near 1 as the risk goes from 0.1 to 10.

    The memory is a number, or "by draw".
    """
    start = Start(1.0, rng.normal(0, 1, draws), rng.normal(0, 1, (draws, features))) if started else None
    return HandoffScore(
        mean=rng.normal(size=features),
        scale=rng.uniform(0.5, 2, features),
        w=rng.dirichlet(np.ones(diagnostics + clock), draws),
        gamma0=rng.normal(2, 0.5, draws),
        gamma=rng.normal(0, 0.3, (draws, features)),
        beta0=rng.normal(0.3, 0.3, draws),
        beta=rng.normal(0, 0.3, (draws, features)),
        s=rng.uniform(0.3, 1, draws),
        family=family,
        memory=rng.uniform(size=draws) if memory == "by draw" else np.array([memory]),
        clock=clock,
        quantile=None if rule == "mean" else rule,
        start=start,
    )


def named(rule: Rule, features: int, diagnostics: int, **settings) -> Router:
    """A router of a rule, with names for what it looks at."""
    return Router(
        rule=rule,
        feature_names=tuple(f"x{j}" for j in range(features)),
        diagnostic_names=tuple(f"u{j}" for j in range(diagnostics)),
        **settings,
    )


def random_router(
    seed: int = 0,
    *,
    diagnostics: int = 3,
    features: int = 2,
    alpha: float = 0.3,
    alpha_start: float = 0.2,
    pace: float = 0.0,
    call: str = "strong",
    timing: str = "post_action",
    **numbers,
) -> Router:
    """TACIT-Switch's router of `random_rule`; the threshold of the start holds where it is started."""
    rule = random_rule(np.random.default_rng(seed), diagnostics=diagnostics, features=features, **numbers)
    start = np.inf if rule.start is None else alpha_start
    settings = {"alpha": alpha, "alpha_start": start, "pace": pace, "call": call, "timing": timing}
    return named(rule, features, diagnostics, **settings)


def chance(rng: np.random.Generator, columns: int) -> Chance:
    """A probability that differs between tasks and steps."""
    return Chance(
        rng.normal(size=columns), rng.uniform(0.5, 2, columns), rng.normal(), rng.normal(size=columns) / columns
    )


def outlook(rng: np.random.Generator, columns: int, features: int) -> rules.Outlook:
    """Chances and a price; half of the time what was read stands in the last two features."""
    line = Line(np.zeros(columns), np.ones(columns), rng.uniform(1, 3), rng.normal(size=columns) / columns, 0.25)
    read = (0, 1) if features == 2 and rng.integers(2) else ()
    return rules.Outlook(read, chance(rng, columns), chance(rng, columns), line)


def outlooks(rng: np.random.Generator, columns: int, draws: int = 5) -> rules.Outlooks:
    """Draws of two chances and of a price."""
    cheap, strong, price = rng.normal(size=(3, draws, 1 + columns)) / (1 + columns)
    return rules.Outlooks(rng.normal(size=columns), rng.uniform(0.5, 2, columns), cheap, strong, 2 + price, 0.25)


def experience(rng: np.random.Generator, columns: int, places: int = 12) -> Experience:
    """Places with what came of them; costs are multiples of a power of two."""
    count = rng.integers(1, 9, places)
    cheap, strong = (rng.integers(0, count + 1) for _ in range(2))
    sums = (count, cheap, strong, rng.integers(-8, 40, places) / 8)
    return Experience(
        rng.normal(size=columns), rng.uniform(0.5, 2, columns), rng.normal(size=(places, columns)), *sums, nearest=3
    )


Factory = Callable[[np.random.Generator, int, int], Rule]
ONE_OF: dict[str, Factory] = {
    "pure_cheap": lambda *_: rules.Never(),
    "pure_strong": lambda *_: rules.Always(),
    "at_checkpoint": lambda rng, *_: rules.FixedStep(int(rng.integers(-1, 5))),
    "task_router": lambda rng, p, _: rules.TaskChance(chance(rng, p)),
    "signal": lambda *_: rules.Signal(),
    "step_deferral_by_task": lambda rng, p, _: rules.TaskSignal(
        [0.25, 0.5, 1.0, 1.5], 1.5, chance(rng, p), chance(rng, p), [[0, 1], [0, 1]], rng.normal(size=2), 1.5
    ),
    "count": lambda rng, _, d: rules.Signs(rng.choice([0.0, 0.25, 0.5], d)),
    "trim": lambda rng, p, d: rules.StepChance(chance(rng, p + d)),
    "landmark": lambda rng, p, d: rules.TwoChances(chance(rng, p + 3 * d + 1), chance(rng, p + 3 * d + 1)),
    "advantage": lambda rng, p, d: rules.Advantage(outlook(rng, p, p), outlook(rng, p + 3 * d + 1, p)),
    "induction": lambda rng, p, d: rules.Induction(
        outlook(rng, p, p), outlook(rng, p + 3 * d + 1, p), [0.0, 0.1, 0.5], rng.normal(size=(3, 4, 6)) / 10
    ),
    "certain_advantage": lambda rng, p, d: rules.CertainAdvantage(outlooks(rng, p), outlooks(rng, p + 3 * d + 1), 0.8),
    "prefix_router": lambda rng, p, d: rules.Prefix(k := int(rng.integers(1, 4)), chance(rng, p + k * d)),
    "cascade": lambda rng, p, d: rules.Ended(("total", "mean", "last"), chance(rng, p + 3 * d)),
    "evoroute": lambda rng, p, d: rules.NetGain(experience(rng, p + 3 * d + 1), 0.1, bool(rng.integers(2))),
    "tacit_switch": lambda rng, p, d: random_rule(
        rng,
        features=p,
        diagnostics=d,
        draws=int(rng.choice([1, 2, 7])),
        rule=rng.choice([0.1, 0.7]) if rng.integers(2) else "mean",
        memory=rng.choice(np.array([1.0, 0.6, 0.0, "by draw"], dtype=object)),
        clock=bool(rng.integers(2)),
        started=bool(rng.integers(2)),
    ),
    "tacit_switch_landmark": lambda rng, p, d: LandmarkScore(
        due := random_rule(
            rng, features=p, diagnostics=d, draws=1, memory=float(rng.choice([1.0, 0.6])), clock=bool(rng.integers(2))
        ),
        chance(rng, p + due.w.shape[1]),
    ),
}
"""A rule of every policy, for so many features and diagnostics."""

assert set(ONE_OF) == set(RULES), "every rule of the library has a factory, or no property below is tested for it"


def episodes_for(router: Router, seed: int, n: int = 12, steps: int = 6) -> Episodes:
    """Random episodes with the router's names. Diagnostics are quarters, so that scores are often equal."""
    rng = np.random.default_rng(seed)
    n_steps = rng.integers(1, steps + 1, n)
    steps = int(n_steps.max())
    inside = np.arange(steps) < n_steps[:, None]
    names = router.diagnostic_names or ("spare",)
    u = rng.integers(0, 8, (n, steps, len(names))) / 4 * (rng.uniform(size=(n, steps, 1)) < 0.7)
    cheap, strong = rng.uniform(size=(2, n)) < 0.5
    blank = ("episode", np.full(n, np.nan))
    return quietly(
        xr.Dataset(
            {
                "features": (("episode", "feature"), rng.integers(-4, 5, (n, len(router.feature_names))) / 2),
                "diagnostics": (("episode", "step", "diagnostic"), np.where(inside[:, :, None], u, np.nan)),
                "n_steps": ("episode", n_steps),
                "cheap_success": ("episode", cheap),
                "strong_success": ("episode", strong),
                "window_start": blank,
                "window_end": blank,
            },
            coords={"episode": np.arange(n), "feature": list(router.feature_names), "diagnostic": list(names)},
        )
    )


@st.composite
def every_router(draw: st.DrawFn, policies: tuple[str, ...] = tuple(ONE_OF)) -> tuple[Router, Episodes]:
    """A router of any rule with thresholds that its own scores come near, and episodes for it."""
    policy, seed = draw(st.sampled_from(policies)), draw(st.integers(0, 100_000))
    rng = np.random.default_rng(seed)
    p, d = draw(st.integers(0, 2)), draw(st.integers(1, 3))
    d = 1 if issubclass(RULES[policy], rules.Signal) else d
    router = named(
        ONE_OF[policy](rng, p, d),
        p,
        d,
        timing=draw(st.sampled_from(TIMINGS)),
        call=draw(st.sampled_from(CALLS[::2])),
        pace=draw(st.sampled_from([0.0, 0.0, 0.2, -0.3])),
    )
    episodes = episodes_for(router, seed)
    return with_thresholds(router, episodes, rng, exact=draw(st.booleans())), episodes


def with_thresholds(router: Router, episodes: Episodes, rng: np.random.Generator, *, exact: bool) -> Router:
    """Thresholds that are scores of the episodes, or lie halfway between two of them."""
    from dataclasses import replace

    found = router.score(episodes)
    steps = found.steps * np.exp(router.pace * np.arange(found.steps.shape[1]))
    later = steps if found.closing is None else found.closing
    return replace(
        router,
        alpha=picked(
            later,
            rng,
            exact=exact,
            positive=isinstance(router.rule, HandoffScore | LandmarkScore),
            most=router.pace == 0,
        ),
        alpha_start=np.inf if found.opening is None else picked(found.opening, rng, exact=exact),
    )


def picked(
    scores: np.ndarray, rng: np.random.Generator, *, exact: bool, positive: bool = False, most: bool = False
) -> float:
    values = np.unique(scores[np.isfinite(scores)])
    values = values[(values > 1e-6) & (values <= (1 if most else np.inf))] if positive else values
    if not len(values):
        return 0.5 if positive else np.inf
    at = int(rng.integers(len(values)))
    return float(values[at] if exact else (values[at] + values[max(0, at - 1)]) / 2)


ALPHAS = st.floats(0.01, 1)
MEMORIES = st.sampled_from([1.0, 0.6, 0.0, "by draw"])
ROUTERS = st.builds(
    random_router,
    st.integers(0, 10_000),
    draws=st.sampled_from([1, 2, 7, 40]),
    family=st.sampled_from(sorted(FAMILIES)),
    rule=st.just("mean") | st.floats(0.01, 0.99),
    alpha=ALPHAS,
    memory=MEMORIES,
    clock=st.booleans(),
)
"""TACIT-Switch without start and pace: its scores are compared with the same alpha at every step."""

EVERY_ROUTER = st.builds(
    random_router,
    st.integers(0, 10_000),
    draws=st.sampled_from([1, 2, 7, 40]),
    rule=st.just("mean") | st.floats(0.01, 0.99),
    alpha=st.floats(0.01, 3) | st.just(np.inf),
    memory=MEMORIES,
    clock=st.booleans(),
    started=st.booleans(),
    pace=st.sampled_from([-0.4, 0.1, 0.6]),
    call=st.sampled_from(["strong", "restart"]),
)
"""TACIT-Switch with all that it can have."""

FEATURES = st.tuples(*[st.floats(-5, 5)] * 2)
ROLLOUTS = st.lists(st.tuples(*[st.floats(0, 3) | st.integers(0, 2)] * 3), min_size=1, max_size=12)
