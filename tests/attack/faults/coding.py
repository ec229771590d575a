"""Bodies that are small on the way and large once unpacked, and those that do not unpack."""

from __future__ import annotations

import gzip
import zlib
from functools import cache

from attack.faults.line import Expected, Fault, Line, completion, headed

GOOD = completion()
MADE = []
"""What makes contents, some of which take a second: made before anybody waits for them."""


def prepare() -> None:
    """Make them."""
    for made in MADE:
        made()


@cache
def bomb() -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join([*(packer.compress(bytes(2**20)) for _ in range(300)), packer.flush()])


def raw_deflate(content: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(content) + packer.flush()


def packed(make: object, coding: str, expected: Expected = "refused") -> Fault:
    made = cache(make) if callable(make) else lambda: make
    MADE.append(made)

    def does(line: Line) -> None:
        line.send(headed(made(), Content_Encoding=coding))

    return Fault(does, expected)


@cache
def faults() -> dict[str, Fault]:
    named = gzip.compress(GOOD)[:3] + b"\x08" + gzip.compress(GOOD)[4:10] + b"n" * 10**6 + b"\0" + raw_deflate(GOOD)
    return {
        "a bomb": packed(bomb, "gzip"),
        "a bomb in a bomb": packed(lambda: gzip.compress(bomb()), "gzip, gzip"),
        "a bomb in a bomb, said once": packed(lambda: gzip.compress(bomb()), "gzip"),
        "three times": packed(lambda: gzip.compress(gzip.compress(bomb())), "gzip, gzip, gzip"),
        "a deflated bomb": packed(lambda: zlib.compress(bytes(2**28), 9), "deflate"),
        "a raw deflated bomb": packed(lambda: raw_deflate(bytes(2**27)), "deflate"),
        "a bomb under another name": packed(bomb, "x-gzip"),
        "a bomb as an error": Fault(lambda line: line.send(headed(bomb(), "500 No", Content_Encoding="gzip"))),
        "a bomb that is not said": packed(bomb, "identity"),
        "a bomb after an answer": packed(lambda: gzip.compress(GOOD) + bomb(), "gzip", "either"),
        "br": packed(GOOD, "br"),
        "zstd": packed(GOOD, "zstd"),
        "compress": packed(GOOD, "compress"),
        "nonsense": packed(GOOD, "nonsense"),
        "a long name": packed(GOOD, "x" * 50_000),
        "two names": packed(gzip.compress(GOOD), "identity, gzip"),
        "packed once": packed(gzip.compress(GOOD), "gzip", "answered"),
        "packed once, in capitals": packed(gzip.compress(GOOD), "GZIP", "answered"),
        "deflated once": packed(zlib.compress(GOOD), "deflate", "answered"),
        "cut short": packed(gzip.compress(GOOD)[:-12], "gzip"),
        "a wrong sum": packed(gzip.compress(GOOD)[:-8] + b"\0" * 8, "gzip", "either"),
        "more after it": packed(gzip.compress(GOOD) + b"x" * 999, "gzip", "answered"),
        "two parts": packed(gzip.compress(GOOD[:9]) + gzip.compress(GOOD[9:]), "gzip", "either"),
        "a long name in it": packed(named, "gzip", "either"),
        "not packed": packed(GOOD, "gzip"),
        "not deflated": packed(GOOD, "deflate"),
        "empty": packed(b"", "gzip"),
    }
