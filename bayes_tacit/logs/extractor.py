"""The generic extractor: step diagnostics from nothing but the messages of a conversation.

A step is one turn of the assistant with the answers of the tools it called. The extractor is fed messages as they come
and never looks back at them, so that a log, a gateway and a framework's callback all get the same numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.messages import CONTENT, Message, mean_nll, reports_error, text_of

FLAGS = ("repeated_call", "short_cycle", "tool_error", "unchanged_observation", "malformed_call", "no_action")
"""Diagnostics that are 0 or 1, in the order of the bits of `StepExtractor.flags`."""

UNCERTAINTY = "uncertainty"
"""The diagnostic that is known only where the log has log-probabilities."""

LONGEST_MESSAGE = 5_000_000
"""Characters of one message from which on it is refused: a file that was logged in place of a message."""

REPEATED, CYCLE, ERROR, UNCHANGED, MALFORMED, IDLE = (1 << bit for bit in range(len(FLAGS)))
ROLES = ("system", "developer", "user", "assistant", "tool", "function")
_ONE_OF_ROLES = " or ".join(map(repr, ROLES))
_CALLS = "a list of calls, each with a function that has a name and arguments"
_NOTHING: Any = object()
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class StepExtractor:
    """Turns messages into step diagnostics, one message after the other.

    | diagnostic | 1 in a step where |
    | --- | --- |
    | `repeated_call` | a call was made in an earlier turn, with the same name and arguments (in any order or spacing) |
    | `short_cycle` | the last two or three turns, this one included, made the calls of those before them again |
    | `tool_error` | a tool's answer is an error, or says that an exit code was not zero |
    | `unchanged_observation` | the answers are those of the turn before |
    | `malformed_call` | the arguments are no JSON object, or no such tool was offered |
    | `no_action` | there is neither a call nor a text, or the answer was cut for its length |

    `uncertainty` is the mean negative log-likelihood of the turn's tokens, and known only where the log has them. The
    same call twice in one turn counts once: it is no repetition.

    Parameters
    ----------
    tools
        Names of the tools that were offered; None where it is not known, and then no tool is unknown.
    longest
        Most characters of one message.
    diagnose
        Whether to compute diagnostics; without, steps are counted and messages checked, which is all that Strong's
        rollouts are read for.

    Attributes
    ----------
    flags
        One byte a step, with the bits of `FLAGS`; the last is of the step that is still going on.
    nll
        Mean negative log-likelihood by step, of the steps that have one.
    spent
        The messages that say what they used (`usage`, `cost`), by step.
    prompt_length
        Characters before the first turn.
    n_messages
        Number of messages so far, the last one included even if it could not be read.

    Examples
    --------
    >>> extractor = StepExtractor()
    >>> call = {"id": "1", "function": {"name": "sql", "arguments": '{"query": "SELECT 1"}'}}
    >>> for _ in range(2):
    ...     extractor.extend([{"role": "assistant", "content": "", "tool_calls": [call]},
    ...                       {"role": "tool", "tool_call_id": "1", "content": "Error: no such table"}])
    >>> [name for name, value in extractor.diagnostics().items() if value]
    ['repeated_call', 'tool_error', 'unchanged_observation']
    """

    def __init__(
        self, tools: Iterable[str] | None = None, *, longest: int = LONGEST_MESSAGE, diagnose: bool = True
    ) -> None:
        self.diagnose = diagnose
        self.tools = None if tools is None else frozenset(tools)
        self.longest = longest
        self.flags = bytearray()
        self.nll: dict[int, float] = {}
        self.spent: dict[int, Message] = {}
        self.prompt_length = 0
        # Each distinct call has a number, from 1 on, negative if it was malformed: by how it was written, and by what
        # it means.
        self._known: dict[tuple[str, str], int] = {}
        self._meanings: dict[tuple[str, str], int] = {}
        self._turns: list[object] = []
        self._open: Sequence[object] = ()
        self._seen: Any = _NOTHING
        self._before: Any = _NOTHING
        self.n_messages = 0

    @property
    def acted(self) -> bool:
        """Whether a call was made so far."""
        return bool(self._known)

    @property
    def n_steps(self) -> int:
        """Number of steps so far, the one that is going on included."""
        return len(self.flags)

    def diagnostics(self, step: int = -1) -> dict[str, float]:
        """Return the diagnostics of a step, by default of the latest; `uncertainty` only where it is known."""
        flags = self.flags[step]
        values = {name: float(flags >> bit & 1) for bit, name in enumerate(FLAGS)}
        nll = self.nll.get(step % len(self.flags))
        return values if nll is None else {**values, UNCERTAINTY: nll}

    def features(self) -> dict[str, float]:
        """Return the features of the task that every conversation has."""
        return {"prompt_length": float(self.prompt_length), "n_tools": float(len(self.tools or ()))}

    def extend(self, messages: Iterable[Message]) -> None:
        """Take the messages that have come since.

        Raises
        ------
        InvalidDataError
            If one is not what it must be; `where` says which. What came before it is kept.
        """
        flags, seen, number, message = self.flags, self._seen, self.n_messages, None
        if flags:
            flags[-1] &= ~UNCHANGED  # the turn is not over: more answers may come
        try:
            for number, message in enumerate(messages, number):  # noqa: B007, B020  it is used where one is wrong
                role = message["role"]
                if role == "tool" or role == "function":
                    text = message["content"]
                    if text.__class__ is not str:
                        text = text_of(text)
                    self._check_length(text)
                    if message.get("tool_call_id", _NOTHING) not in self._open:
                        _check_answer(message, self._open)
                    if self.diagnose and (reports_error(text) or _is_flagged(message)):
                        flags[-1] |= ERROR
                    seen = text if seen is _NOTHING else (seen, text)
                elif role == "assistant":
                    if seen is not _NOTHING and seen == self._before:
                        flags[-1] |= UNCHANGED
                    self._before, seen = seen, _NOTHING
                    self._turn(message)
                else:
                    self._said(message, role)
        except InvalidDataError as error:
            raise _placed(error, number) from None
        except (KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise _placed(_wrong_message(message), number) from None
        finally:
            self._seen, self.n_messages = seen, number + (message is not None)
        if seen is not _NOTHING and seen == self._before:
            flags[-1] |= UNCHANGED

    def _turn(self, message: Message) -> None:
        """Take a turn of the assistant."""
        text, calls, step = text_of(message.get("content")), message.get("tool_calls"), len(self.flags)
        self._check_length(text)
        if not calls and message.get("function_call"):
            calls = [{"function": message["function_call"]}]
        flag = IDLE if (not calls and not text.strip()) or message.get("finish_reason") == "length" else 0
        if "logprobs" in message and (nll := mean_nll(message["logprobs"])) is not None:
            self.nll[step] = nll
        if "usage" in message or "cost" in message or "seconds" in message:
            self.spent[step] = message
        before, made = len(self._meanings), []
        for call in calls or ():
            name, written = call["function"]["name"], _written(call["function"].get("arguments"))
            made.append(self._known.get((name, written)) or self._number(name, written))
        self._open = [call.get("id") for call in calls or ()]
        self._turns.append(made[0] if len(made) == 1 else frozenset(made) or None)
        if any(number < 0 for number in made):
            flag |= MALFORMED
        if any(-before <= number <= before for number in made):
            flag |= REPEATED | (CYCLE if _is_cycle(self._turns) else 0)
        self.flags.append(flag)

    def _number(self, name: Any, written: str) -> int:  # noqa: ANN401  checked here
        """Number a call that was not written before, as those that mean the same; negatively if it is malformed."""
        if not isinstance(name, str) or not name:
            raise InvalidDataError("the name of a tool", field="name of a call", value=name)
        arguments = _decoded(written) if self.diagnose else {}
        if isinstance(arguments, dict) and (self.tools is None or name in self.tools):
            number = self._meanings.setdefault((name, _canonical(arguments)), len(self._meanings) + 1)
        else:
            number = self._meanings.setdefault((name, written), -len(self._meanings) - 1)
        self._known[name, written] = number
        return number

    def _check_length(self, text: str) -> None:
        if len(text) > self.longest:
            expected = f"at most {self.longest:,} (was a file logged in place of a message?)"
            raise InvalidDataError(expected, field="number of characters", value=len(text))

    def _said(self, message: Message, role: object) -> None:
        """Take a message of neither the assistant nor a tool."""
        if role not in ROLES:
            raise InvalidDataError(_ONE_OF_ROLES, field="role", value=role)
        text = text_of(message.get("content"))
        self._check_length(text)
        if not self.flags:
            self.prompt_length += len(text)


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else _canonical(arguments)


def _decoded(written: str) -> object:
    """Parse arguments: {} for none at all, None if they are malformed."""
    try:
        return json.loads(written) if written.strip() else {}
    except (ValueError, RecursionError):
        return None


def _is_cycle(turns: list[Any]) -> bool:
    """Return whether the last two or three turns made the calls of those before them again, in the same order."""
    if len(turns) < 4 or (turns[-1] != turns[-3] and len(turns) < 6):
        return False
    two, three = turns[-4:], turns[-6:]
    if two[0] == two[2] and two[1] == two[3] and two[0] != two[1] and None not in two:
        return True
    return len(three) == 6 and three[:3] == three[3:] and None not in three and len(set(three)) > 1


def _is_flagged(message: Message) -> bool:
    """Return whether a tool's answer is marked as an error beside its text."""
    return bool(message.get("is_error") or message.get("error") or message.get("status") in ("error", "failed"))


def _check_answer(message: Message, calls: Sequence[object]) -> None:
    """Refuse a tool's answer that belongs to no call of the turn before it."""
    if not calls:
        expected = "a call by the assistant before a tool's answer"
        raise InvalidDataError(expected, field="role", value=message.get("role"))
    identity = message.get("tool_call_id")
    if identity is not None and identity not in calls:
        expected = f"the id of a call of the turn before: {', '.join(map(repr, calls))}"
        raise InvalidDataError(expected, field="tool_call_id", value=identity)


def _wrong_message(message: object) -> InvalidDataError:
    """Return what is wrong with the shape of a message."""
    if not isinstance(message, Mapping):
        return InvalidDataError("an object with role and content", field="message", value=message)
    if "role" not in message:
        return InvalidDataError(_ONE_OF_ROLES, field="role", value=None)
    if message["role"] in ("tool", "function") and "content" not in message:
        return InvalidDataError(CONTENT, field="content", value=None)
    for name in ("tool_calls", "function_call"):
        if message.get(name):
            return InvalidDataError(_CALLS, field=name, value=message[name])
    return InvalidDataError("a message of OpenAI's chat format", field="message", value=message)


def _placed(error: InvalidDataError, number: int) -> InvalidDataError:
    """Add the number of the message, counted from 0, to an error."""
    return InvalidDataError(error.expected, field=error.field, value=error.value, where=f"message {number}")
