"""Language models behind an OpenAI-compatible chat-completions endpoint, as actors.

`EndpointActor` fills a `Prompt`, asks an `Endpoint` and reads an action from the answer. A call ends within a total
time and a total size, whatever the other side does, and the key is in no message, value or file. The `openai` client
waits from byte to byte, unpacks whatever comes, and takes keys from the environment by itself, so the limits would
have to stand below it as well: requests are made with httpx.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import SequenceMatcher
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.resources import files
from itertools import islice
from string import Template
from typing import TYPE_CHECKING, Any, Literal

from bayes_tacit import validate
from bayes_tacit.agents.protocols import ActorError, History, Proposal
from bayes_tacit.errors import InvalidDataError, MissingDependencyError
from bayes_tacit.files import read_text
from bayes_tacit.keys import checked_address, excerpt, key_from, masked, no_key_in

if TYPE_CHECKING:
    import httpx

Mode = Literal["choose", "generate"]

Pooling = Literal["sum", "mean"]
"""Over the tokens of the action: their sum is -log P(action), their mean does not grow with its length."""

PLACES = ("task", "history", "observation", "actions")

LARGEST, PER_TOKEN = 2 * 2**20, 512
"""Bytes of an answer, and more for each token that was asked for; one that is larger is nonsense."""

COUNTS, NAME = 64, 100
"""Numbers of usage that are kept, and letters of their names."""

TRANSIENT = {408, 409, 425, 429}
"""Status codes after which asking again may help, besides those of 500 and more."""


@dataclass(frozen=True)
class Prompt:
    r"""What a model is asked at a step.

    The text up to a line `---` is the system's message, the rest the user's; without such a line all of it is the
    user's. In both, `$task`, `$history`, `$observation` and `$actions` are filled in; a dollar sign is written `$$`.

    `lists_actions` says whether `$actions` lists the admissible actions, `steps` how many of the last steps `$history`
    shows (None for all).

    Examples
    --------
    >>> from bayes_tacit.agents import Observation
    >>> Prompt("Be brief.\n---\n$task: $observation").messages(History(Observation("A cup.", task="Find it")))
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Find it: A cup.'}]
    """

    text: str
    lists_actions: bool = True
    steps: int | None = None

    def __post_init__(self) -> None:
        """Check that every place is known."""
        template = Template(self.text)
        unknown = [name for name in template.get_identifiers() if name not in PLACES]
        if unknown or not template.is_valid():
            expected = f"{', '.join(f'${name}' for name in PLACES)}, and $$ for a dollar sign"
            wrong = f"${unknown[0]}" if unknown else self.text
            raise InvalidDataError(expected, field="a place in the prompt", value=wrong)
        if self.steps is not None:
            validate.whole("steps in the prompt", self.steps, 0)

    @classmethod
    def default(cls, *, lists_actions: bool = True, steps: int | None = None) -> Prompt:
        """Return our own prompt."""
        text = files("bayes_tacit.agents").joinpath("endpoint.txt").read_text(encoding="utf-8")
        return cls(text, lists_actions, steps)

    @classmethod
    def read(cls, path: str | os.PathLike[str], *, lists_actions: bool = True, steps: int | None = None) -> Prompt:
        """Read a prompt from a file."""
        return cls(read_text(path, "a prompt"), lists_actions, steps)

    def messages(self, history: History) -> list[dict[str, str]]:
        """Fill in the places."""
        admissible = history.observation.admissible if self.lists_actions else None
        values = {
            "task": history.task,
            "history": self._past(history),
            "observation": history.observation.text,
            "actions": "" if admissible is None else "\n".join(["Possible actions:", *admissible]),
        }
        parts = self.text.strip("\n").split("\n---\n", 1)
        filled = [Template(part).substitute(values) for part in parts]
        return [
            {"role": role, "content": text}
            for role, text in zip(("system", "user")[-len(parts) :], filled, strict=True)
        ]

    def _past(self, history: History) -> str:
        """Show the first observation, then each action and what came of it, but what is seen now."""
        skipped = 0 if self.steps is None else max(len(history) - self.steps, 0)
        lines = [history.first.text] if len(history) else ["Nothing yet."]
        lines += ["..."] * bool(skipped)
        for step in history.steps[skipped:]:
            lines += [f"> {step.proposal.action}", step.result.observation.text]
        return "\n".join(lines[:-1] if len(history) > skipped else lines)


@dataclass(frozen=True)
class Token:
    """A token of an answer and its log-probability."""

    text: str
    logprob: float


@dataclass(frozen=True)
class Answer:
    """What a model said; `tokens` is None where the endpoint gives no log-probabilities."""

    text: str
    tokens: tuple[Token, ...] | None
    usage: Mapping[str, float]


@dataclass(frozen=True)
class Endpoint:
    """A model behind an OpenAI-compatible endpoint.

    Whatever goes wrong is an `ActorError` within the time: transient where there is no answer, it is none of a chat
    completion or too large (2 MiB and 512 bytes a token, decoded), or its status is 408, 409, 425, 429 or above 500.

    Attributes
    ----------
    base_url
        Address up to the version, such as "http://127.0.0.1:8000/v1", without a password.
    model
        Name of the model there.
    key_variable
        Name of the environment variable that holds the key; None where none is needed. Space around the key is dropped.
        The key itself is never kept, shown or written: where the other side repeats it, `***` stands in its place.
    temperature, max_tokens, seed
        As the endpoint takes them; a seed of None is not sent.
    timeout
        Seconds within which the whole answer must have come, counted from the call.
    logprobs
        Whether to ask for log-probabilities of the answer's tokens.
    extra
        More fields for the request, such as {"top_p": 0.9}.
    """

    base_url: str
    model: str
    key_variable: str | None = None
    temperature: float = 0.0
    max_tokens: int = 256
    seed: int | None = None
    timeout: float = 120.0
    logprobs: bool = True
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check the settings."""
        checked_address(self.base_url)
        validate.number("temperature", self.temperature, "a finite number >= 0", least=0)
        validate.whole("max_tokens", self.max_tokens, 1)
        validate.number("timeout", self.timeout, "a finite number > 0", above=0)
        try:
            json.dumps(dict(self.extra), allow_nan=False)
        except (TypeError, ValueError, RecursionError):
            raise InvalidDataError("fields that JSON can hold, by name", field="extra", value=self.extra) from None
        no_key_in(key_from(self.key_variable), base_url=self.base_url, model=self.model, extra=dict(self.extra))

    def complete(self, messages: Sequence[Mapping[str, str]]) -> Answer:
        """Ask once, with a conversation of {"role": ..., "content": ...} each."""
        body: dict[str, Any] = {
            "model": self.model,
            "messages": [{name: _sound(text) for name, text in message.items()} for message in messages],
            "temperature": self.temperature,
            "max_tokens": self.max_tokens,
            **self.extra,
        }
        if self.logprobs:
            # Some servers give none unless they are also told how many alternatives to list.
            body |= {"logprobs": True, "top_logprobs": 0}
        if self.seed is not None:
            body["seed"] = self.seed
        key = key_from(self.key_variable)
        longest = PER_TOKEN * self.max_tokens
        # A compressed answer may be any size once it is unpacked; none is asked for.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
        url = f"{self.base_url.rstrip('/')}/chat/completions"
        try:
            status, after, content = _exchanged(
                url, json.dumps(body).encode(), headers, self.timeout, LARGEST + longest
            )
        except ActorError as error:
            raise ActorError(masked(str(error), key), transient=error.transient) from None
        if status != 200:
            said = excerpt(" ".join(content.decode("utf-8", "replace").split()), key, 300)
            transient = status in TRANSIENT or status >= 500
            wait = retry_after(after) if transient else None
            raise ActorError(f"status {status}: {said}", transient=transient, retry_after=wait)
        return _answer(content, key, longest)


def retry_after(given: str | None) -> float | None:
    """Return the seconds that a Retry-After header asks for, as a number or as a date.

    Examples
    --------
    >>> retry_after("1.5"), retry_after("Thu, 01 Jan 1970 00:00:00 GMT"), retry_after("soon")
    (1.5, 0.0, None)
    """
    try:
        seconds = float(given or "")
    except ValueError:
        try:
            date = parsedate_to_datetime(given or "")
        except ValueError:
            return None
        seconds = (date.replace(tzinfo=date.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _answer(content: bytes, key: str | None, longest: int) -> Answer:
    try:
        given = json.loads(content)
        choice = given["choices"][0]
        text = choice["message"]["content"]
        usage = (given.get("usage") or {}).items()
        numbers = ((name, n) for name, value in usage if (n := _finite(value)) is not None and len(name) <= NAME)
        counts = {masked(_sound(name), key): n for name, n in islice(numbers, COUNTS)}
        logprobs = choice.get("logprobs")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError) as error:
        start = excerpt(content.decode("utf-8", "replace"), key, 80)
        raise ActorError(f"not a chat completion ({type(error).__name__}): {start!r}", transient=True) from None
    if text is not None and not isinstance(text, str):
        raise ActorError(f"not a chat completion: content is {excerpt(repr(text), key, 80)}", transient=True)
    if len(text or "") > longest:
        raise ActorError(f"a text of more than {longest:,} letters", transient=True)
    return Answer(masked(_sound(text or ""), key), _tokens(logprobs, key, longest), counts)


def _finite(value: object) -> float | None:
    """Return a number as a float; None for what is none, not finite, or too large for one."""
    try:
        number = float(value) if type(value) in (int, float) else math.nan  # type: ignore[arg-type]
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _tokens(given: object, key: str | None, longest: int) -> tuple[Token, ...] | None:
    """Read the log-probabilities in the chat format; whatever else is there counts as none."""
    content = given.get("content") if isinstance(given, dict) else None
    tokens = []
    for each in content if isinstance(content, list) else ():
        fields = each if isinstance(each, dict) else {}
        text, logprob = fields.get("token"), _finite(fields.get("logprob"))
        if not isinstance(text, str) or logprob is None:
            return None
        tokens.append(Token(_sound(text), logprob))
    # Tokens that spell the key are not kept, and the action's NLL with them.
    whole = "".join(token.text for token in tokens)
    return tuple(tokens) if tokens and len(whole) <= longest and masked(whole, key) == whole else None


def _sound(text: str) -> str:
    """Replace halves of surrogate pairs, which cannot be written to a file."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _exchanged(
    url: str, body: bytes, headers: Mapping[str, str], timeout: float, largest: int
) -> tuple[int, str | None, bytes]:
    """Return status, Retry-After and unpacked content of an answer, within a total time and a total size.

    The client's own time-outs count from byte to byte, so a server that trickles could hold a call for ever. The call
    has an event loop in a thread of its own, which works inside another loop, too, as in a notebook.
    """
    try:
        import httpx
    except ImportError:
        raise MissingDependencyError("httpx is not installed; expected pip install 'bayes_tacit[agents]'") from None
    late = ActorError(f"no answer within {timeout:g} s", transient=True)
    outcome: list[tuple[int, str | None, bytes] | BaseException] = []

    async def exchange() -> tuple[int, str | None, bytes]:
        async with (
            asyncio.timeout(timeout),
            httpx.AsyncClient(timeout=timeout, verify=_certificates()) as client,
            client.stream("POST", url, content=body, headers=headers) as response,
        ):
            content = b"".join([chunk async for chunk in _unpacked(response, largest)])
            return response.status_code, response.headers.get("retry-after"), content

    def run() -> None:
        try:
            outcome.append(asyncio.run(exchange()))
        except (TimeoutError, httpx.TimeoutException):
            outcome.append(late)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, zlib.error) as error:
            outcome.append(ActorError(f"no answer: {error or type(error).__name__}", transient=True))
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True, name="endpoint")
    thread.start()
    # It ends by itself, unless it still looks for the host's address; nothing of it is used then.
    thread.join(timeout + min(0.05, timeout / 20))
    found = outcome[0] if outcome else late
    if isinstance(found, BaseException):
        raise found
    return found


async def _unpacked(response: httpx.Response, largest: int) -> AsyncIterator[bytes]:
    """Undo one compression, neither taking nor giving more than is allowed in all."""
    coding = response.headers.get("Content-Encoding", "").strip().lower() or "identity"
    if coding not in ("identity", "gzip", "deflate"):
        raise ActorError("an answer in an encoding that was not asked for", transient=True)
    packed = None if coding == "identity" else zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    taken = given = 0
    async for chunk in response.aiter_raw():
        taken += len(chunk)
        if packed is not None:
            # What comes after the end of the packed stream is no part of it, and would be kept for ever.
            chunk = b"" if packed.eof else packed.decompress(chunk, largest + 1)
        given += len(chunk)
        if max(taken, given) > largest:
            raise ActorError(f"an answer of more than {largest:,} bytes", transient=True)
        yield chunk


@cache
def _certificates() -> Any:  # noqa: ANN401
    """Load the certificates once: that takes longer than a call on the same machine."""
    import httpx

    return httpx.create_ssl_context()


def action_line(answer: str) -> str:
    r"""Find the action after the last "Action:", or else in the first line that says something.

    Examples
    --------
    >>> action_line("I should look around.\nAction: go to shelf 1."), action_line("look"), action_line("  ")
    ('go to shelf 1', 'look', '')
    """
    marked = re.findall(r"\baction\b\W{0,3}?:(.*)$", answer, re.IGNORECASE | re.MULTILINE)
    lines = marked[-1:] or [line for line in answer.splitlines() if line.strip()][:1]
    return lines[0].strip().strip("`\"'*<>").rstrip(".").strip() if lines else ""


def whole_answer(answer: str) -> str:
    """Take all of the answer, for environments that read it themselves."""
    return answer.strip()


def closest_action(answer: str, admissible: Sequence[str]) -> str:
    """Find the action whose letters are nearest to the first 200 of an answer (by difflib); the first of several.

    Examples
    --------
    >>> closest_action("I will go to the shelf", ["look", "go to shelf 1", "go to shelf 2"])
    'go to shelf 1'
    """
    text = answer.lower()[:200]
    return max(admissible, key=lambda action: SequenceMatcher(None, action.lower(), text, autojunk=False).ratio())


def action_nll(tokens: Sequence[Token] | None, action: str, pooling: Pooling = "sum") -> float | None:
    """Return the NLL of the tokens that make up an action, where it is last said in an answer.

    A token that reaches into the action from outside counts as a whole; words around it do not count. None where there
    are no tokens, or the action is not in their text as it stands.

    Examples
    --------
    >>> tokens = [Token("Action", -2.0), Token(": ", -0.5), Token("go", -0.25), Token(" up", -0.75), Token(".", -3.0)]
    >>> action_nll(tokens, "go up"), action_nll(tokens, "go up", "mean"), action_nll(tokens, "look")
    (1.0, 0.5, None)
    """
    text = "".join(token.text for token in tokens or ())
    start = text.lower().rfind(action.lower())
    # Where lower-casing changes the length, positions in the two texts do not agree.
    if tokens is None or not action or start < 0 or len(text) != len(text.lower()):
        return None
    inside, position = [], 0
    for token in tokens:
        following = position + len(token.text)
        if position < start + len(action) and following > start:
            inside.append(token.logprob)
        position = following
    # Rounding can make a log-probability slightly positive.
    total = max(-sum(inside), 0.0)
    return total if pooling == "sum" else total / len(inside)


@dataclass(frozen=True)
class EndpointActor:
    """Asks a model behind an endpoint for the next action.

    A fallback is not the model's own action: it has no NLL, and `Proposal.fallback` says so.

    Attributes
    ----------
    endpoint
        The model.
    prompt
        What it is asked.
    mode
        With "choose" the action must be one of the admissible ones, whatever the case, spaces and a full stop at the
        end; otherwise the fallback is the one nearest to the answer (`closest_action`). With "generate", or where the
        environment lists no actions, it is taken as it is; the fallback of an empty one is `fallback_action`.
    reads
        Finds the action in an answer: `action_line` or `whole_answer`.
    pooling
        Whether the NLL is the "sum" over the action's tokens, -log P(action), or their "mean".
    fallback_action
        For "generate".
    name
        For transcripts; by default that of the model.
    """

    endpoint: Endpoint
    prompt: Prompt = field(default_factory=Prompt.default)
    mode: Mode = "choose"
    reads: Callable[[str], str] = action_line
    pooling: Pooling = "sum"
    fallback_action: str = "look"
    name: str = ""

    def __post_init__(self) -> None:
        """Check the words."""
        validate.choice("mode", self.mode, ("choose", "generate"))
        validate.choice("pooling", self.pooling, ("sum", "mean"))
        object.__setattr__(self, "name", self.name or self.endpoint.model)

    def act(self, history: History) -> Proposal:
        """Ask the model once; `ActorError` if there is no answer."""
        began = time.perf_counter()
        answer = self.endpoint.complete(self.prompt.messages(history))
        action = said = self.reads(answer.text)
        admissible = history.observation.admissible if self.mode == "choose" else None
        other = self.fallback_action
        if admissible:
            action = next((known for known in admissible if _plain(known).rstrip(".") == _plain(said)), "")
            other = action or closest_action(said or answer.text, admissible)
        nll = action_nll(answer.tokens, said, self.pooling) if action else None
        seconds = time.perf_counter() - began
        return Proposal(action or other, nll, not action, answer.text, answer.usage, seconds)


def _plain(action: str) -> str:
    return " ".join(action.lower().split())
