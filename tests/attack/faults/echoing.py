"""Servers that say the key again: in every field, in every way of writing, at every place where a text is cut."""

from __future__ import annotations

import gzip
import html
import json
from urllib.parse import quote, quote_plus

from attack.faults.line import KEY, Fault, completion, headed, sends

WRITTEN = {
    "as it is": KEY,
    "in JSON": json.dumps(KEY)[1:-1],
    "in JSON in JSON": json.dumps(json.dumps(KEY))[3:-3],
    "in JSON with strokes": KEY.replace("/", "\\/").replace('"', '\\"'),
    "in numbers of JSON": "".join(f"\\u{ord(letter):04x}" for letter in KEY),
    "in numbers of JSON, capitals": "".join(f"\\u{ord(letter):04X}" for letter in KEY),
    "in numbers of Python": "".join(f"\\x{ord(letter):02x}" for letter in KEY),
    "in HTML": html.escape(KEY),
    "in numbers of HTML": "".join(f"&#{ord(letter)};" for letter in KEY),
    "in other numbers of HTML": "".join(f"&#x{ord(letter):x};" for letter in KEY),
    "in an address": quote(KEY, safe=""),
    "in a form": quote_plus(KEY),
    "in an address twice": quote(quote(KEY, safe=""), safe=""),
    "in numbers of an address": "".join(f"%{ord(letter):02x}" for letter in KEY),
    "in capitals": KEY.upper(),
    "twice": KEY + KEY,
    "its beginning": KEY[:17] + "...",
    "its end": "..." + KEY[-17:],
    "its middle": KEY[9:27],
    "with a word": f"Bearer {KEY}",
}
OFFSETS = (*range(250, 312, 6), 10**5)
SHORT = (*range(30, 86, 6), 10**5)


def faults() -> dict[str, Fault]:
    found = {}
    for name, text in WRITTEN.items():
        content = json.dumps({"error": "bad key XX"}).replace("XX", text).encode()
        found[f"in an error, {name}"] = sends(headed(content, "401 No"))
        found[f"in an answer, {name}"] = sends(headed(completion(f"the key is {text}")), "answered")
        found[f"in what is no JSON, {name}"] = sends(headed(text.encode()))
    found |= {f"in an error after {n} bytes": sends(headed(b"x" * n + KEY.encode(), "500 No")) for n in OFFSETS}
    numbers = WRITTEN["in numbers of JSON"].encode()
    found |= {
        f"in numbers after {n} bytes of an error": sends(headed(b"x" * n + numbers, "500 No")) for n in (100, 200)
    }
    found |= {f"after {n} spaces in an error": sends(headed(b" " * n + KEY.encode(), "400 No")) for n in OFFSETS[::3]}
    found |= {f"in what is no JSON after {n} bytes": sends(headed(b"x" * n + KEY.encode())) for n in SHORT}
    found |= {f"in a list after {n} letters": sends(headed(completion(["x" * n + KEY]))) for n in SHORT}
    split = [{"token": KEY[at : at + 3], "logprob": -0.1} for at in range(0, len(KEY), 3)]
    found |= {
        "in tokens": sends(headed(completion("right", {"content": split})), "answered"),
        "as one token": sends(headed(completion("right", {"content": [{"token": KEY, "logprob": -1}]})), "answered"),
        "as a count": sends(headed(completion("right", usage={KEY: 1})), "answered"),
        "as the action": sends(headed(completion(f"Action: {KEY}")), "answered"),
        "as the content's type": sends(headed(completion({KEY: KEY}))),
        "as a header": sends(headed(completion(), X_Key=KEY), "answered"),
        "as the reason": sends(headed(b"{}", f"403 {KEY}")),
        "as the encoding": sends(headed(completion(), Content_Encoding=KEY)),
        "as the encoding, late": sends(headed(completion(), Content_Encoding="x" * 30 + KEY)),
        "as the length": sends(headed(completion(), Content_Length=KEY)),
        "as the status": sends(f"HTTP/1.1 {KEY}\r\n\r\n".encode()),
        "as the version": sends(f"HTTP/{KEY} 200 OK\r\n\r\n".encode()),
        "as a bad header": sends(f"HTTP/1.1 200 OK\r\n{KEY}\r\n\r\n".encode()),
        "as a chunk": sends(f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{KEY}\r\n".encode()),
        "as a transfer": sends(headed(completion(), Transfer_Encoding=KEY), "either"),
        "as a wish to wait": sends(headed(b"{}", "429 Slow", Retry_After=KEY)),
        "as a way elsewhere": sends(headed(b"", "302 Moved", Location=f"/{KEY}")),
        "as a way elsewhere that is none": sends(headed(b"", "302 Moved", Location=f"http://[{KEY}")),
        "as a cookie": sends(headed(completion(), Set_Cookie=f"k={KEY}"), "answered"),
        "as the type": sends(headed(completion(), Content_Type=f"application/json; charset={KEY}"), "answered"),
        "packed": sends(headed(gzip.compress(KEY.encode()), "401 No", Content_Encoding="gzip")),
        "a hundred times": sends(headed(f"{KEY} ".encode() * 100, "401 No")),
        "a thousand times, in numbers": sends(headed(WRITTEN["in numbers of JSON"].encode() * 1000, "401 No")),
        "a hundred times in an answer": sends(headed(completion(KEY * 100)), "answered"),
        "with surrogates": sends(headed(completion(f"\ud800{KEY}\ud800")), "answered"),
    }
    return found
