"""One request and its answer, within a total time and a total size, whatever the other side does."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from bayes_tacit.agents.errors import ActorError
from bayes_tacit.errors import MissingDependencyError

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True)
class Reply:
    """Status, headers and decoded body."""

    status: int
    headers: Mapping[str, str]
    content: bytes


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float, largest: int) -> Reply:
    """Send a request and read all of the answer.

    The client's own time-outs count from byte to byte, so a server that trickles could hold a call for ever. The call
    is made in a thread of its own; when the time is up, its connection is cut and nobody waits for it any longer.

    Raises
    ------
    ActorError
        A transient one: no answer in time, a broken one, or one that is too large once it is decoded.
    """
    call = _Call(url, body, headers, timeout, largest)
    thread = threading.Thread(target=call.run, daemon=True, name="endpoint")
    thread.start()
    try:
        thread.join(timeout)
    except BaseException:
        call.cut()
        raise
    if thread.is_alive():
        call.cut()
        # It ends at once, unless it still looks for the host's address; nothing of it is used then.
        thread.join(min(0.05, timeout / 200))
        raise ActorError(f"no answer within {timeout:g} s", transient=True)
    if isinstance(call.outcome, Reply):
        return call.outcome
    if isinstance(call.outcome, ActorError):
        raise call.outcome
    if call.outcome is None:
        raise ActorError("no answer", transient=True)
    raise call.outcome


@dataclass
class _Call:
    url: str
    body: bytes
    headers: Mapping[str, str]
    timeout: float
    largest: int
    outcome: Reply | BaseException | None = None
    _sockets: list[int] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _ended: bool = False

    def run(self) -> None:
        """Make the call and keep what came of it."""
        try:
            self.outcome = self._answered()
        except BaseException as error:
            self.outcome = error
        finally:
            with self._lock:
                self._ended = True
                for handle in self._sockets:
                    os.close(handle)
                self._sockets.clear()

    def cut(self) -> None:
        """Shut the connection down, from another thread."""
        with self._lock:
            self._ended = True
            for handle in self._sockets:
                with contextlib.suppress(OSError), socket.socket(fileno=os.dup(handle)) as line:
                    line.shutdown(socket.SHUT_RDWR)

    def _answered(self) -> Reply:
        httpx = httpx_module()
        # A compressed answer may be any size once it is unpacked; none is asked for.
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **self.headers}
        try:
            with (
                httpx.Client(timeout=self.timeout, verify=_certificates()) as client,
                client.stream(
                    "POST", self.url, content=self.body, headers=headers, extensions={"trace": self._watch}
                ) as response,
            ):
                content = b"".join(_bounded(_decoded(response, self.largest), self.largest))
                return Reply(response.status_code, dict(response.headers), content)
        except httpx.TimeoutException:
            return_error = ActorError(f"no answer within {self.timeout:g} s", transient=True)
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError, OSError, ValueError, zlib.error) as error:
            return_error = ActorError(f"no answer: {error or type(error).__name__}", transient=True)
        raise return_error from None

    def _watch(self, event: str, details: Mapping[str, Any]) -> None:
        """Note the connection as soon as there is one."""
        if event != "connection.connect_tcp.complete":
            return
        line = details["return_value"].get_extra_info("socket")
        with self._lock:
            if self._ended:
                raise TimeoutError
            self._sockets.append(os.dup(line.fileno()))


def httpx_module() -> Any:  # noqa: ANN401
    """Import httpx, which is an extra."""
    try:
        import httpx
    except ImportError:
        raise MissingDependencyError("httpx is not installed; expected pip install 'bayes_tacit[agents]'") from None
    return httpx


@cache
def _certificates() -> Any:  # noqa: ANN401
    """Load the certificates once: that takes longer than a call on the same machine."""
    return httpx_module().create_ssl_context()


def _bounded(chunks: Iterator[bytes], largest: int) -> Iterator[bytes]:
    size = 0
    for chunk in chunks:
        size += len(chunk)
        if size > largest:
            raise ActorError(f"an answer of more than {largest:,} bytes", transient=True)
        yield chunk


def _decoded(response: httpx.Response, largest: int) -> Iterator[bytes]:
    """Undo one compression, never taking or giving more than is allowed in all."""
    coding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if coding not in ("identity", "", "gzip", "deflate"):
        raise ActorError("an answer in an encoding that was not asked for", transient=True)
    if coding in ("identity", ""):
        yield from response.iter_raw()
        return
    packed = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    # What comes after the end of the packed stream is no part of it, and would be kept for ever.
    for chunk in _bounded(response.iter_raw(), largest):
        if not packed.eof:
            yield packed.decompress(chunk, largest + 1)
