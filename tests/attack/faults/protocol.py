"""What is not HTTP, or only nearly: status lines, headers and lengths that lie."""

from __future__ import annotations

from attack.faults.line import Fault, completion, headed, sends

BODY = completion()
STATUS_LINES = [
    b"", b"\0" * 99, b"HTTP/0.9 200 OK", b"HTTP/2 200", b"HTTP/1.1", b"HTTP/1.1 abc OK", b"HTTP/1.1 99 Low", b"HTTP/1.1 -1 No",
    b"HTTP/1.1 1000 High", b"HTTP/1.1 2OO OK", b"HTTP/9.9 200 OK", b"ICY 200 OK", b"http/1.1 200 ok", b" HTTP/1.1 200 OK",
    b"SSH-2.0-OpenSSH_9.9", b"220 mail ready", b"\x15\x03\x03\0\x02\x02\x28", b"+OK", b"{}", b"HTTP/1.1 200 " + b"x" * 10**6,
    b"HTTP/1.1 200 \xff\xfe", b"HTTP/1.1 " + b"9" * 400 + b" OK", b"GET / HTTP/1.1", b"PRI * HTTP/2.0",
]  # fmt: skip
HEADERS = [
    b"no colon", b": no name", b"Bad Name: 1", b"X\0: 1", b"X: \0", b"X: \xff\xfe", b" folded: 1", b"X: 1\n Y: 2", b"X: " + b"x" * 10**6,
    b"X: 1\r\n" * 20_000 + b"Y: 1", b"Content-Length: -1", b"Content-Length: 1e3", b"Content-Length: " + b"9" * 30,
    b"Content-Length: 0x10", b"Content-Length: 3, 4", b"Content-Length: 3\r\nContent-Length: 4", b"Content-Length: ",
    b"Content-Length: 5", b"Content-Length: 99999", b"Content-Length: 0", b"Transfer-Encoding: gzip", b"Transfer-Encoding: nonsense",
    b"Transfer-Encoding: chunked, chunked", b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 4",
    b"Connection: upgrade\r\nUpgrade: websocket", b"Content-Type: " + b"x;" * 30_000,
]  # fmt: skip
CHUNKS = [
    b"zz\r\nabc\r\n", b"-1\r\nabc\r\n", b"FFFFFFFFFFFFFFFF\r\nabc\r\n", b"3\r\nabcdef\r\n0\r\n\r\n", b"3\nabc\n0\n\n", b"\r\n\r\n", b"0\r\n\r\n",
    b"1" * 400 + b"\r\n", b"3;" + b"x" * 10**5 + b"\r\nabc\r\n0\r\n\r\n", b"0x3\r\nabc\r\n0\r\n\r\n", b" 3\r\nabc\r\n0\r\n\r\n",
]  # fmt: skip


def faults() -> dict[str, Fault]:
    found = {f"status line {at}": sends(each + b"\r\n\r\n" + BODY, "either") for at, each in enumerate(STATUS_LINES)}
    for at, each in enumerate(HEADERS):
        found[f"header {at}"] = sends(b"HTTP/1.1 200 OK\r\n" + each + b"\r\n\r\n" + BODY, "either")
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    found |= {f"chunk {at}": sends(start + each, "refused") for at, each in enumerate(CHUNKS)}
    found["two answers at once"] = sends(headed(BODY) * 2, "answered")
    found["an answer and more"] = sends(headed(BODY) + b"x" * 10**6, "answered")
    found["line ends of one letter"] = sends(headed(BODY).replace(b"\r\n", b"\n"), "either")
    return found
