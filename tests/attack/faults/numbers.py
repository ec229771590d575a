"""Numbers, texts and nests that JSON can write and a program cannot hold."""

from __future__ import annotations

import json

from attack.faults.line import Fault, completion, headed, sends
from attack.faults.types import GOOD

NUMBERS = {
    "400 digits": "9" * 400,
    "400 digits below zero": "-" + "9" * 400,
    "5,000 digits": "9" * 5000,
    "a million digits": "9" * 10**6,
    "1e400": "1e400",
    "-1e400": "-1e400",
    "1e-400": "1e-400",
    "an exponent of 400 digits": "1e" + "9" * 400,
    "400 digits after the point": "0." + "1" * 400,
    "NaN": "NaN",
    "Infinity": "Infinity",
    "-Infinity": "-Infinity",
    "minus zero": "-0.0",
    "a half": "0.5",
}
TEXT = json.dumps(GOOD)
BODIES = {
    "nothing": b"",
    "space": b" " * 999,
    "a word": b"right",
    "a page": b"<html><body>busy</body></html>",
    "a stream": b'data: {"choices": [{"delta": {"content": "right"}}]}\n\ndata: [DONE]\n\n',
    "a call": b"callback(" + TEXT.encode() + b")",
    "two documents": TEXT.encode() * 2,
    "half a document": TEXT.encode()[:-9],
    "a mark at the start": b"\xef\xbb\xbf" + TEXT.encode(),
    "UTF-16": TEXT.encode("utf-16"),
    "UTF-32": TEXT.encode("utf-32"),
    "Latin-1": '{"choices": [{"message": {"content": "é"}}]}'.encode("latin-1"),
    "bytes": bytes(range(256)) * 99,
    "zeros": bytes(10**6),
    "a nest of lists": b"[" * 500_000,
    "a nest of objects": b'{"a":' * 300_000,
    "a nest in the answer": TEXT.replace('"right"', "[" * 100_000 + "]" * 100_000, 1).encode(),
    "a list of a million": b"[" + b"0," * 900_000 + b"0]",
    "a name twice": b'{"choices": 1, ' + TEXT.encode()[1:],
    "a hundred thousand counts": TEXT.replace(
        '"prompt_tokens"', ",".join(f'"n{n}": 1' for n in range(100_000)) + ', "p"'
    ).encode(),
    "a count with a long name": TEXT.replace("prompt_tokens", "n" * 10**6).encode(),
    "a text of a million": completion("x" * 10**6),
    "strokes": completion("\\" * 500_000),
    "a text of two million": completion("x" * 2 * 10**6),
    "a hundred thousand choices": json.dumps({"choices": GOOD["choices"] * 10_000}).encode(),
    "control letters": completion("".join(map(chr, range(32))) + "\x1b[2J\x1b]0;x\x07\x7f\x9b"),
    "marks of direction": completion("\u202e\u2066right\u200b\ufeff"),
    "many tokens": completion("right", {"content": [{"token": "r", "logprob": -1.0}] * 30_000}),
    "a long token": completion("right", {"content": [{"token": "r" * 10**6, "logprob": -1.0}]}),
    "tokens without text": completion("right", {"content": [{"token": "", "logprob": -1.0}] * 9_999}),
}  # fmt: skip


def faults() -> dict[str, Fault]:
    found = {}
    for name, number in NUMBERS.items():
        found[f"a logprob of {name}"] = sends(headed(TEXT.replace("-0.5", number).encode()), "either")
        found[f"a count of {name}"] = sends(headed(TEXT.replace('": 9', f'": {number}').encode()), "either")
    return found | {f"{name} for a body": sends(headed(body), "either") for name, body in BODIES.items()}
