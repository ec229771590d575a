"""Asking an actor again when it gave no answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.errors import ActorError
from bayes_tacit.agents.protocols import Actor, History, Proposal

NON_NEGATIVE = "a finite number >= 0"


@dataclass(frozen=True)
class Failure:
    """A call that gave no answer: what happened, and the seconds waited before the next one (None if it was given up).

    A failed call is on record but costs nothing: the paper's formula charges answers.
    """

    message: str
    waited: float | None


@dataclass(frozen=True)
class Retry:
    r"""How often a transient error is answered by asking again, and after how long.

    Before attempt k + 1 the wait is :math:`\min(\mathrm{first} \cdot \mathrm{factor}^{k-1}, \mathrm{longest})` times a
    factor drawn evenly from [1 - jitter, 1 + jitter], so that many episodes do not all come back at once; and at least
    as long as the other side asked for, though never above `patience`.

    Attributes
    ----------
    attempts
        Calls in all.
    first, factor, longest
        Seconds of the first wait, its growth, and its limit.
    jitter
        From 0 to 1.
    patience
        The longest wait in seconds that another side may ask for; a longer one is an error that is not transient.

    Examples
    --------
    >>> Retry(first=1, longest=3, jitter=0).waits(np.random.default_rng(0), 4)
    [1.0, 2.0, 3.0, 3.0]
    """

    attempts: int = 5
    first: float = 1.0
    factor: float = 2.0
    longest: float = 30.0
    jitter: float = 0.5
    patience: float = 120.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.whole("attempts", self.attempts, 1)
        for name in ("first", "longest", "patience"):
            validate.number(name, getattr(self, name), NON_NEGATIVE, least=0)
        validate.number("factor", self.factor, "a finite number >= 1", least=1)
        validate.number("jitter", self.jitter, "a number from 0 to 1", least=0, most=1)

    def wait(self, attempt: int, rng: np.random.Generator) -> float:
        """Give the seconds to wait after so many failed attempts."""
        # The exponent is bounded so that a large number of attempts does not overflow.
        base = min(self.first * self.factor ** min(attempt - 1, 64), self.longest)
        return float(base * rng.uniform(1 - self.jitter, 1 + self.jitter))

    def waits(self, rng: np.random.Generator, n: int) -> list[float]:
        """Give the first waits."""
        return [self.wait(attempt, rng) for attempt in range(1, n + 1)]


class GivenUpError(ActorError):
    """An actor gave no answer however often it was asked; `failures` has each attempt."""

    def __init__(self, message: str, failures: tuple[Failure, ...]) -> None:
        super().__init__(message)
        self.failures = failures


def ask(
    actor: Actor, history: History, retry: Retry, rng: np.random.Generator, sleep: Callable[[float], None]
) -> tuple[Proposal, tuple[Failure, ...]]:
    """Ask an actor until there is an answer; see `asked_again`."""
    return asked_again(lambda: actor.act(history), actor.name, retry, rng, sleep)


def asked_again[T](
    call: Callable[[], T], name: str, retry: Retry, rng: np.random.Generator, sleep: Callable[[float], None]
) -> tuple[T, tuple[Failure, ...]]:
    """Make a call until it is answered.

    Returns
    -------
    answer, failures
        The answer, and the attempts that failed before it.

    Raises
    ------
    GivenUpError
        If the error is not transient, the attempts are used up, or the other side asks for too long a wait.
    """
    failures: list[Failure] = []
    while True:
        try:
            return call(), tuple(failures)
        except ActorError as error:
            attempt = len(failures) + 1
            asked = error.retry_after or 0.0
            if not error.transient or attempt >= retry.attempts or asked > retry.patience:
                failures.append(Failure(str(error), None))
                calls = "1 call" if attempt == 1 else f"{attempt} calls"
                raise GivenUpError(f"{name}: {error} ({calls})", tuple(failures)) from error
            waited = max(retry.wait(attempt, rng), asked)
            failures.append(Failure(str(error), waited))
        sleep(waited)
