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
_PLAIN_KEYS = 3  # role, content, and tool_calls or tool_call_id: there is nothing more to look at
_NOTHING: Any = object()
_decode = json.JSONDecoder().raw_decode
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

    __slots__ = (
        "_before",
        "_known",
        "_meanings",
        "_n_messages",
        "_open",
        "_seen",
        "_turns",
        "diagnose",
        "flags",
        "longest",
        "nll",
        "prompt_length",
        "spent",
        "tools",
    )

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
        self._known: dict[tuple[Any, Any], int] = {}
        self._meanings: dict[Any, int] = {}
        self._turns: list[object] = []
        self._open: Sequence[object] = ()
        self._seen: Any = _NOTHING
        self._before: Any = _NOTHING
        self._n_messages = 0

    @property
    def n_messages(self) -> int:
        """Number of messages so far, the last one included even if it could not be read."""
        return self._n_messages

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
        flags, turns, known, seen, longest = self.flags, self._turns, self._known, self._seen, self.longest
        message, number, diagnose = None, self._n_messages, self.diagnose
        if flags:
            flags[-1] &= ~UNCHANGED  # the turn is not over: more answers may come
        try:
            for number, message in enumerate(messages, number):  # noqa: B007, B020  it is used where one is wrong
                role = message["role"]
                if role == "tool" or role == "function":
                    text = message["content"]
                    if text.__class__ is not str:
                        text = text_of(text)
                    if len(text) > longest:
                        raise _too_long(text, longest)
                    if message.get("tool_call_id", _NOTHING) not in self._open:
                        _check_answer(message, self._open)
                    if diagnose and (reports_error(text) or (len(message) > _PLAIN_KEYS and _is_flagged(message))):
                        flags[-1] |= ERROR
                    seen = text if seen is _NOTHING else (seen, text)
                elif role == "assistant":
                    if seen is not _NOTHING and seen == self._before:
                        flags[-1] |= UNCHANGED
                    self._before, seen = seen, _NOTHING
                    calls = message.get("tool_calls")
                    if not calls or len(calls) > 1 or len(message) > _PLAIN_KEYS:
                        self._turn(message, calls)
                        continue
                    # One call and nothing beside it: most turns are such, and this is the shortest way.
                    text, call = message.get("content"), calls[0]
                    if text.__class__ is not str:
                        text = text_of(text)
                    if len(text) > longest:
                        raise _too_long(text, longest)
                    function, before = call["function"], len(self._meanings)
                    name, written = function["name"], function.get("arguments")
                    if written.__class__ is not str:
                        written = _written(written)
                    made = known.get((name, written)) or self._number(name, written)
                    self._open = (call.get("id"),)
                    turns.append(made)
                    flags.append(0 if made > before else _flag((made,), before, turns))
                else:
                    self._said(message, role)
        except InvalidDataError as error:
            raise _placed(error, number) from None
        except (KeyError, TypeError, AttributeError, IndexError, RecursionError):
            raise _placed(_wrong_message(message), number) from None
        finally:
            self._seen, self._n_messages = seen, number + (message is not None)
        if seen is not _NOTHING and seen == self._before:
            flags[-1] |= UNCHANGED

    def _turn(self, message: Message, calls: Any) -> None:  # noqa: ANN401  checked as it is read
        """Take a turn of the assistant that is not the simplest."""
        text, flag, step = text_of(message.get("content")), 0, len(self.flags)
        if len(text) > self.longest:
            raise _too_long(text, self.longest)
        if not calls and message.get("function_call"):
            calls = [{"function": message["function_call"]}]
        if (not calls and not text.strip()) or message.get("finish_reason") == "length":
            flag = IDLE
        nll = mean_nll(message.get("logprobs"))
        if nll is not None:
            self.nll[step] = nll
        if "usage" in message or "cost" in message or "seconds" in message:
            self.spent[step] = message
        before, made = len(self._meanings), []
        for call in calls or ():
            name, written = call["function"]["name"], _written(call["function"].get("arguments"))
            made.append(self._known.get((name, written)) or self._number(name, written))
        self._open = [call.get("id") for call in calls or ()]
        self._turns.append(made[0] if len(made) == 1 else frozenset(made) or None)
        self.flags.append(flag | _flag(made, before, self._turns))

    def _number(self, name: Any, written: str) -> int:  # noqa: ANN401  checked here
        """Number a call that was not written before, as those that mean the same; negatively if it is malformed."""
        meanings = self._meanings
        if not self.diagnose:
            _check_call_name(name)
            return 1
        try:
            arguments, end = _decode(written)
            if end != len(written):
                arguments = _decoded(written)
        except (ValueError, RecursionError):
            arguments = _decoded(written)
        if name.__class__ is not str or not name:
            _check_call_name(name)
        if arguments.__class__ is dict and (self.tools is None or name in self.tools):
            try:
                meaning: Any = (name, frozenset(arguments.items()))
            except TypeError:  # something nested
                meaning = (name, _canonical(arguments))
            if meaning in meanings and meaning[1].__class__ is not str and not self._is_same(meaning, arguments):
                meaning = (name, _canonical(arguments))
            number = meanings.setdefault(meaning, len(meanings) + 1)
        else:
            number = meanings.setdefault((name, written), -len(meanings) - 1)
        self._known[name, written] = number
        return number

    def _is_same(self, meaning: Any, arguments: object) -> bool:  # noqa: ANN401  a key
        """Return whether the first call of a meaning was the same as JSON, in which 1 is not true as in Python."""
        number = self._meanings[meaning]
        first = next(written for (_, written), known in self._known.items() if known == number)
        return _canonical(json.loads(first)) == _canonical(arguments)

    def _said(self, message: Message, role: object) -> None:
        """Take a message of neither the assistant nor a tool."""
        if role not in ROLES:
            raise InvalidDataError(_ONE_OF_ROLES, field="role", value=role)
        text = text_of(message.get("content"))
        if len(text) > self.longest:
            raise _too_long(text, self.longest)
        if not self.flags:
            self.prompt_length += len(text)


def _flag(made: Sequence[int], before: int, turns: list[Any]) -> int:
    """Return the flags of the calls of a turn, before which so many distinct ones were made."""
    flag = MALFORMED if any(number < 0 for number in made) else 0
    if any(-before <= number <= before for number in made):
        flag |= REPEATED | (CYCLE if _is_cycle(turns) else 0)
    return flag


def _written(arguments: object) -> str:
    if isinstance(arguments, str):
        return arguments
    return "" if arguments is None else _canonical(arguments)


def _decoded(written: str) -> object:
    """Parse arguments that are not plain JSON: {} for none at all, None if they are malformed."""
    text = written.strip()
    if not text:
        return {}
    try:
        return json.loads(text)
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


def _too_long(text: str, longest: int) -> InvalidDataError:
    expected = f"at most {longest:,} (was a file logged in place of a message?)"
    return InvalidDataError(expected, field="number of characters", value=len(text))


def _check_answer(message: Message, calls: Sequence[object]) -> None:
    """Refuse a tool's answer that belongs to no call of the turn before it."""
    if not calls:
        expected = "a call by the assistant before a tool's answer"
        raise InvalidDataError(expected, field="role", value=message.get("role"))
    identity = message.get("tool_call_id")
    if identity is not None and identity not in calls:
        expected = f"the id of a call of the turn before: {', '.join(map(repr, calls))}"
        raise InvalidDataError(expected, field="tool_call_id", value=identity)


def _check_call_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise InvalidDataError("the name of a tool", field="name of a call", value=name)


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
