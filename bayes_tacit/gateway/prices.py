"""What a call costs: so much a call, so much a token, and less for a token that the server's cache holds."""

from __future__ import annotations

from dataclasses import dataclass

from bayes_tacit import validate
from bayes_tacit.data.costs import NON_NEGATIVE
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.kept import Kept, Side

MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of one call.

    Attributes
    ----------
    prompt, completion
        Tokens in and out.
    cached
        How many of those in were cached; None where the server does not say.
    estimated
        Whether nobody counted, and they were taken from the letters.
    """

    prompt: int
    completion: int
    cached: int | None = None
    estimated: bool = False


@dataclass(frozen=True)
class Price:
    """What one model costs, in any unit.

    Attributes
    ----------
    call
        Of each call.
    input, cached, output
        Of a million tokens in, in and cached, and out.

    Examples
    --------
    >>> Price.parse("10"), Price.parse("0.5,0.05,2")
    (Price(call=10.0, input=0.0, cached=0.0, output=0.0), Price(call=0.0, input=0.5, cached=0.05, output=2.0))
    """

    call: float = 0.0
    input: float = 0.0
    cached: float = 0.0
    output: float = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("call", "input", "cached", "output"):
            validate.number(f"{name} price", getattr(self, name), NON_NEGATIVE, least=0)

    @classmethod
    def parse(cls, text: str) -> Price:
        """Read a price of a call, or those of a million input, cached and output tokens with commas between."""
        try:
            numbers = [float(part) for part in text.split(",")]
        except ValueError:
            numbers = []
        if len(numbers) == 1:
            return cls(call=numbers[0])
        if len(numbers) == 3:
            return cls(0.0, *numbers)
        expected = "the price of a call, or three of a million tokens: input,cached,output"
        raise InvalidDataError(expected, field="price", value=text)

    def cost(self, usage: Usage | None, cached: int) -> float:
        """Give the cost of a call of which so many tokens in were cached; without tokens, that of the call alone."""
        if usage is None:
            return self.call
        known = min(cached, usage.prompt)
        tokens = (usage.prompt - known) * self.input + known * self.cached + usage.completion * self.output
        return self.call + tokens / MILLION


@dataclass(frozen=True)
class Prices:
    """What both models cost; by default 1 and 10 a call.

    A handoff sends Strong a conversation that its cache does not hold: the first call after it pays for one whole
    prefix. Where a server does not say what was cached, it is the prompt that the same model was sent before.

    Examples
    --------
    >>> prices, kept = Prices(Price(input=1.0, cached=0.1), Price(input=10.0, cached=1.0)), Kept()
    >>> long = Usage(prompt=1_000_000, completion=0)
    >>> [prices.charge(kept, side, long)[0] for side in ("cheap", "cheap", "strong", "strong")]
    [1.0, 0.1, 10.0, 1.0]
    >>> kept.strong_cost
    13.0
    """

    cheap: Price = Price(call=1.0)
    strong: Price = Price(call=10.0)

    def charge(self, kept: Kept, side: Side, usage: Usage | None) -> tuple[float, float]:
        """Add a call to what the session has cost; give its cost, and what it would have cost with Strong alone."""
        own = self.strong if side == "strong" else self.cheap
        assumed = kept.prompts.get(side, 0)
        cached = assumed if usage is None or usage.cached is None else usage.cached
        cost = own.cost(usage, cached)
        # Strong alone would have had all that was sent before in its cache, whoever it was sent to.
        alone = self.strong.cost(usage, max(kept.prompts.values(), default=0))
        if usage is not None:
            kept.prompts[side] = usage.prompt
        kept.cost += cost
        kept.strong_cost += alone
        kept.calls[side] = kept.calls.get(side, 0) + 1
        return cost, alone
