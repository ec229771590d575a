"""What calls or rollouts cost, from the words of a command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    from bayes_tacit.data.costs import CostModel, LoggedCost, StepCost, TokenCost
    from bayes_tacit.data.episodes import Episodes

STRONG_STEPS = "strong_steps"
"""The carried variable that `bayes-tacit import` writes."""


def prices_of(cheap: str | None, strong: str | None, *, restarts: bool) -> StepCost | LoggedCost:
    """Read two prices of a call, or for restarts two names of variables that the episodes carry.

    Examples
    --------
    >>> prices_of(None, "10", restarts=True)
    StepCost(cheap=1.0, strong=10.0, one_off=0.0)
    >>> prices_of("cheap_cost", "strong_cost", restarts=True)
    LoggedCost(cheap='cheap_cost', strong='strong_cost')
    """
    from bayes_tacit.data.costs import LoggedCost, StepCost

    given = {"--cheap-cost": "1" if cheap is None else cheap, "--strong-cost": "3" if strong is None else strong}
    numbers = {name: number_of(text) for name, text in given.items()}
    named = [name for name, number in numbers.items() if number is None]
    if named and not restarts:
        raise InvalidDataError("a number; carried variables price restarts only", field=named[0], value=given[named[0]])
    if len(named) == 1:
        expected = "two numbers, or two names of carried variables"
        raise InvalidDataError(expected, field="--cheap-cost and --strong-cost", value=tuple(given.values()))
    if named:
        return LoggedCost(*given.values())
    return StepCost(*(number for number in numbers.values() if number is not None))


def tokens_of(cheap: str | None, strong: str | None) -> TokenCost:
    """Read the prices of both models' tokens.

    Examples
    --------
    >>> tokens_of("0.25,0.025,2", "3,0.3,15").cheap.cached
    0.025
    """
    from bayes_tacit.data.costs import Price, TokenCost

    if cheap is None or strong is None:
        raise InvalidDataError("both --cheap-price and --strong-price", field="prices", value=(cheap, strong))
    return TokenCost(Price.parse(cheap), Price.parse(strong))


def steps_of(episodes: Episodes, name: str | None) -> str | None:
    """Return the name of the variable with Strong's steps: the one that was given, or the importer's if it is there."""
    return name or (STRONG_STEPS if STRONG_STEPS in episodes.dataset else None)


def restarts_known(steps: str | None, prices: CostModel | LoggedCost | TokenCost) -> bool:
    """Say whether the log knows what restarts cost: Strong's steps, or what its rollouts did cost."""
    from bayes_tacit.data.costs import LoggedCost, TokenCost

    return steps is not None or isinstance(prices, LoggedCost | TokenCost)


def check_restarts(steps: str | None, prices: CostModel | LoggedCost | TokenCost) -> None:
    """Refuse restarts of which the log does not know what they cost."""
    if not restarts_known(steps, prices):
        expected = (
            f"a carried variable with the steps of Strong's rollouts, such as {STRONG_STEPS} of bayes-tacit import, or "
            "--cheap-cost and --strong-cost with variables of what the rollouts cost"
        )
        raise InvalidDataError(expected, field="--strong-steps", value=steps)


def number_of(text: str) -> float | None:
    """Read a number; None for what is none."""
    try:
        return float(text)
    except ValueError:
        return None
