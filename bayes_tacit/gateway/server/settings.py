"""How a gateway is set up: plain values, which its worker processes are given as text."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from urllib.parse import urlsplit

from bayes_tacit import validate
from bayes_tacit.data.timing import Handoff
from bayes_tacit.gateway.store import IDLE, MOST
from bayes_tacit.keys import checked_address


@dataclass(frozen=True)
class Upstream:
    """One of the two models.

    Attributes
    ----------
    url
        Base address of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1.
    model
        The model's name there; by default what the client says.
    key_variable
        Environment variable with the key to send; by default the client's own key.
    price
        As `Price.parse` reads it.
    """

    url: str
    model: str | None = None
    key_variable: str | None = None
    price: str = "1"

    def __post_init__(self) -> None:
        """Check the address."""
        object.__setattr__(self, "url", checked_address(self.url).rstrip("/"))

    @property
    def origin(self) -> tuple[str, str | None, int | None]:
        """Scheme, host and port: who gets what is sent."""
        parts = urlsplit(self.url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]


@dataclass(frozen=True)
class Limits:
    """What bounds a request.

    Attributes
    ----------
    body
        Bytes of a request.
    copied
        Bytes of a reply that are read for tokens and log-probabilities; a longer one is passed on all the same.
    connecting, silence
        Seconds to reach a server, and between two pieces of its reply, the first included.
    sessions, idle
        Sessions that are kept, and seconds until an idle one is forgotten.
    """

    body: int = 64 * 2**20
    copied: int = 16 * 2**20
    connecting: float = 10.0
    silence: float = 600.0
    sessions: int = MOST
    idle: float = IDLE

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("body", "copied", "sessions"):
            validate.whole(name, getattr(self, name), 1)
        for name in ("connecting", "silence", "idle"):
            validate.number(name, getattr(self, name), "a number above 0", above=0)


@dataclass(frozen=True)
class Settings:
    """Everything that a worker needs to serve.

    Attributes
    ----------
    router, shadow
        Paths of router files; without a router, `default_router()` decides.
    cheap, strong
        The two models.
    handoff
        "resume" or "restart", in place of what the router file says.
    fallback
        Whether Strong serves a request that Cheap answers with 429 or 5xx, or not at all.
    logprobs
        Whether Cheap is asked for log-probabilities where the client does not.
    log, state
        Paths of the decision log and of the file with sessions.
    limits
        What bounds a request.

    Examples
    --------
    >>> settings = Settings(None, Upstream("http://127.0.0.1:1/v1"), Upstream("http://127.0.0.1:2/v1/", model="big"))
    >>> Settings.from_json(settings.to_json()) == settings, settings.strong.url
    (True, 'http://127.0.0.1:2/v1')
    """

    router: str | None
    cheap: Upstream
    strong: Upstream
    shadow: str | None = None
    handoff: Handoff | None = None
    fallback: bool = False
    logprobs: bool = False
    log: str | None = None
    state: str | None = None
    limits: Limits = field(default_factory=Limits)

    def to_json(self) -> str:
        """Give all of it as text; there is no key in it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what `to_json` gave."""
        content = json.loads(text)
        cheap, strong = (Upstream(**content.pop(side)) for side in ("cheap", "strong"))
        return cls(cheap=cheap, strong=strong, limits=Limits(**content.pop("limits")), **content)
