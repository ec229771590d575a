"""What the gateway itself says: errors in OpenAI's words, and headers about a decision."""

from __future__ import annotations

import json
import re
from urllib.parse import quote

from starlette.types import Send

from bayes_tacit.gateway.engine import Ruling
from bayes_tacit.gateway.kept import Side

Headers = list[tuple[bytes, bytes]]

PREFIX = b"x-tacit-"


class RefusedError(Exception):
    """A request that is answered here, with a status and a sentence.

    Attributes
    ----------
    status
        As HTTP has it.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def error_body(status: int, message: str) -> bytes:
    """Give an error as OpenAI's clients read it."""
    kind = "invalid_request_error" if status < 500 else "upstream_error"
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": f"tacit_{status}"}}).encode()


async def send_json(send: Send, status: int, content: bytes, headers: Headers | None = None) -> None:
    """Answer with JSON."""
    about = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*about, *(headers or ())]})
    await send({"type": "http.response.body", "body": content})


def ruling_headers(session: str | None, ruling: Ruling, side: Side, model: str | None, fault: str | None) -> Headers:
    """Say in headers who serves and why.

    Examples
    --------
    >>> from bayes_tacit.gateway import Engine, Kept, default_router
    >>> ruling = Engine(default_router()).consider(Kept(), [{"role": "user", "content": "Hi"}])
    >>> dict(ruling_headers("a", ruling, "cheap", None, None))[b"x-tacit-why"]
    b'nothing to judge before the first step'
    """
    told: dict[str, object] = {"session": None if session is None else quote(session, safe=" #:/@+=,;|")}
    told |= {"step": ruling.step, "served": side, "model": model}
    decision = ruling.decision
    if decision is not None:
        told["score"] = None if decision.score is None else f"{decision.score:.6g}"
        if decision.lower is not None and decision.upper is not None:
            told["band"] = f"{decision.lower:.6g},{decision.upper:.6g}"
    told |= {"why": ruling.why, "missing": ", ".join(ruling.missing) or None, "fault": fault or ruling.fault}
    if ruling.latched:
        told["handoff"] = "restart" if ruling.restart else "resume"
    return [(PREFIX + name.encode(), _visible(value)) for name, value in told.items() if value is not None]


def _visible(value: object) -> bytes:
    """Give a text that a header can carry, on one line."""
    return re.sub(r"[^ -~]+", "?", str(value))[:1000].encode()
