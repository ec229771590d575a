"""How a gateway is set up: plain values, which its worker processes are given as text."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from bayes_tacit import validate
from bayes_tacit.data.timing import HANDOFFS, Handoff
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway.protocols import PROTOCOLS
from bayes_tacit.gateway.sessions import Plan
from bayes_tacit.gateway.store import IDLE, MOST, PATIENCE
from bayes_tacit.keys import checked_address

FALLBACKS = ("strong", "cheap", "overflow")
"""Who may stand in: Strong where Cheap's server fails, Cheap where Strong's does, the other on a context too long."""

STORE_DOWN = ("fail", "cheap", "strong")
"""What comes of a request whose session can be neither read nor written."""


@dataclass(frozen=True)
class Upstream:
    """One of the two models."""

    # Base address of its server, such as http://127.0.0.1:8000/v1; the model's name there, by default what the client
    # says; the environment variable with the key to send, by default the client's own; the price, as `Price.parse`
    # reads it; the protocols that it understands.
    url: str
    model: str | None = None
    key_variable: str | None = None
    price: str = "1"
    speaks: tuple[str, ...] = tuple(PROTOCOLS)

    def __post_init__(self) -> None:
        """Check the address and the protocols."""
        object.__setattr__(self, "url", checked_address(self.url).rstrip("/"))
        object.__setattr__(self, "speaks", tuple(self.speaks))
        for one in self.speaks:
            validate.choice("speaks", one, tuple(PROTOCOLS))

    @property
    def origin(self) -> tuple[str, str | None, int | None]:
        """Scheme, host and port: who gets what is sent."""
        parts = urlsplit(self.url)
        return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}[parts.scheme]


@dataclass(frozen=True)
class Limits:
    """What bounds a request."""

    # Bytes of a request, and of a reply that are read for tokens; a longer one is passed on all the same.
    body: int = 64 * 2**20
    copied: int = 16 * 2**20
    # Seconds for a client to send its headers and each next piece, to reach a server, between two pieces of a reply.
    reading: float = 30.0
    connecting: float = 10.0
    silence: float = 600.0
    # Seconds that the store may take, and that requests have to end when the gateway is stopped.
    store: float = PATIENCE
    drain: float = 10.0
    # Sessions that are kept of one key, and seconds until an idle one is forgotten.
    sessions: int = MOST
    idle: float = IDLE

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name in ("body", "copied", "sessions"):
            validate.whole(name, getattr(self, name), 1)
        for name in ("reading", "connecting", "silence", "store", "drain", "idle"):
            validate.number(name, getattr(self, name), "a number above 0", above=0)


@dataclass(frozen=True)
class Doors:
    """Who may come in: environment variables with clients' keys (ours, which go to no server) and the operator's."""

    client_keys: str | None = None
    admin_key: str | None = None
    # Whether to listen to other machines without keys of clients.
    open: bool = False

    def check(self, host: str) -> None:
        """Refuse to listen to other machines without keys.

        Examples
        --------
        >>> Doors().check("127.0.0.1")
        >>> Doors().check("0.0.0.0")
        Traceback (most recent call last):
            ...
        bayes_tacit.errors.InvalidDataError: host is '0.0.0.0'; expected this machine alone, --client-keys, or --open
        """
        if self.client_keys is None and not self.open and not is_loopback(host):
            raise InvalidDataError("this machine alone, --client-keys, or --open", field="host", value=host)


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address."""
    with suppress(ValueError):
        return host == "localhost" or ip_address(host).is_loopback
    return False


@dataclass(frozen=True)
class Settings:
    """Everything that a worker needs to serve; `bayes-tacit serve --help` says what each is.

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
    canary: str | None = None
    plan: Plan = field(default_factory=Plan)
    handoff: Handoff | None = None
    fallback: tuple[str, ...] = ()
    logprobs: bool = False
    log: str | None = None
    state: str | None = None
    store_down: str = "fail"
    limits: Limits = field(default_factory=Limits)
    doors: Doors = field(default_factory=Doors)
    telemetry: bool = False
    workers: int = 1
    counters: str | None = None  # a file in which workers add up what they count

    def __post_init__(self) -> None:
        """Check what goes together."""
        object.__setattr__(self, "fallback", tuple(self.fallback))
        for one in self.fallback:
            validate.choice("fallback", one, FALLBACKS)
        validate.choice("store-down", self.store_down, STORE_DOWN)
        if self.handoff is not None:
            validate.choice("handoff", self.handoff, HANDOFFS)
        if (self.plan.canary > 0) != (self.canary is not None):
            expected = "a router file and a share above 0, both or neither"
            raise InvalidDataError(expected, field="canary", value=self.canary)
        validate.whole("workers", self.workers, 1, 256)
        if self.workers > 1 and self.state is None:
            raise InvalidDataError("a store, with --state, that all workers share", field="state", value=None)

    def to_json(self) -> str:
        """Return all of it as text; there is no key in it."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Settings:
        """Read what `to_json` wrote."""
        content = json.loads(text)
        kinds = {"cheap": Upstream, "strong": Upstream, "limits": Limits, "doors": Doors, "plan": Plan}
        return cls(**{**content, **{name: kind(**content[name]) for name, kind in kinds.items()}})
