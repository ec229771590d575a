"""Status codes, and what comes with them: wishes to wait, and ways to other places."""

from __future__ import annotations

from attack.faults.line import Fault, completion, headed, sends

CODES = (101, 201, 202, 204, 205, 206, 226, 300, 304, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409, 410, 413, 415, 418, 422, 423, 425, 429, 431, 451, 500, 501, 502, 503, 504, 508, 511, 520, 599, 600, 999)  # fmt: skip
MOVED = (301, 302, 303, 307, 308)
WAITS = ("0", "-1", "1e9", "inf", "nan", "9" * 400, "soon", "", "Thu, 01 Jan 1970 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Thu, 99 Foo 2026", "\u00e9", "1;2", "0x10")  # fmt: skip


def faults() -> dict[str, Fault]:
    found = {f"{code}": sends(headed(completion(), f"{code} X")) for code in CODES}
    # "elsewhere" is a path of the same server, which writes down who comes.
    found |= {f"{code} to elsewhere": sends(headed(b"", f"{code} Moved", Location="/elsewhere")) for code in MOVED}
    found |= {
        f"{code} to another host": sends(headed(b"", f"{code} Moved", Location="http://127.0.0.2:9/x"))
        for code in MOVED
    }
    found["moved in circles"] = sends(headed(b"", "302 Moved", Location="."))
    found["moved to a file"] = sends(headed(b"", "302 Moved", Location="file:///etc/passwd"))
    found |= {f"429, wait {at}": sends(headed(b"{}", "429 Slow", Retry_After=wait)) for at, wait in enumerate(WAITS)}
    return found
