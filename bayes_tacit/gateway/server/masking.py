"""Answers on their way back, without the gateway's own key: a server that repeats it tells it to no client."""

from __future__ import annotations

from bayes_tacit.keys import masked

HELD = 2**20
"""Bytes without an end of line that are held back at most."""


class Masking:
    r"""Masks a key in bytes that come in pieces.

    No way of writing a key has space in it. So what follows the last end of a line is held back until the next one, or
    the end: events of a stream pass whole as they come, and a plain answer, which nobody can read before its end, then.

    Parameters
    ----------
    key
        What is masked; None if the client's own key is sent, and nothing has to be.

    Examples
    --------
    >>> masking = Masking("sk-1234567890abcdef")
    >>> masking.passed(b"data: bad key sk-12345"), masking.passed(b"67890abcdef\n\ndata: o"), masking.rest()
    (b'', b'data: bad key ***\n\n', b'data: o')
    """

    def __init__(self, key: str | None) -> None:
        self.key = key
        self._held: list[bytes] = []
        self._size = 0

    def passed(self, piece: bytes) -> bytes:
        """Take a piece; give what can be passed on by now."""
        if self.key is None:
            return piece
        end = piece.rfind(b"\n") + 1
        self._held.append(piece)
        self._size += len(piece)
        if end == 0 and self._size <= HELD:
            return b""
        whole = b"".join(self._held)
        # A line without an end is cut at its last space, and where there is none, as it is.
        cut = len(whole) - len(piece) + end if end else whole.rfind(b" ") + 1 or len(whole)
        self._held, self._size = [whole[cut:]], len(whole) - cut
        return without_key(whole[:cut], self.key)

    def rest(self) -> bytes:
        """Give what was held back, at the end."""
        rest, self._held, self._size = b"".join(self._held), [], 0
        return without_key(rest, self.key)


def without_key(content: bytes, key: str | None) -> bytes:
    """Mask a key in bytes, all others of which stay as they are."""
    return content if key is None else masked(content.decode("latin-1"), key).encode("latin-1")
