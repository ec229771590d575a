"""Sockets of every kind, and the libraries that open them."""

from __future__ import annotations


def tricks() -> dict[str, str]:
    out = {}
    for family in ("AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK", "AF_PACKET", "AF_VSOCK", "AF_ALG"):
        for kind in ("SOCK_STREAM", "SOCK_DGRAM", "SOCK_RAW"):
            out[f"socket {family} {kind}"] = (
                f"__import__('_socket').socket(__import__('_socket').{family}, __import__('_socket').{kind})"
            )
    for number, name in (
        (1, "unix"),
        (2, "inet"),
        (10, "inet6"),
        (16, "netlink"),
        (17, "packet"),
        (38, "alg"),
        (40, "vsock"),
    ):
        out[f"libc socket {name}"] = f"past('libc.socket({number}, 1, 0)')"
        out[f"libc datagram {name}"] = f"past('libc.socket({number}, 2, 0)')"
    out |= {
        "socketpair": "__import__('socket').socketpair()",
        "connection": "__import__('socket').create_connection(('127.0.0.1', PORT), 2)",
        "listening": "__import__('socket').create_server(('127.0.0.1', 0))",
        "name": "__import__('socket').getaddrinfo('localhost', 80)",
        "url": "__import__('urllib.request').request.urlopen('http://127.0.0.1:PORT', timeout=2)",
        "http": "__import__('http.client').client.HTTPConnection('127.0.0.1', PORT, timeout=2).request('GET', '/')",
        "mail": "__import__('smtplib').SMTP('127.0.0.1', PORT, timeout=2)",
        "files by ftp": "__import__('ftplib').FTP('127.0.0.1', timeout=2)",
        "pandas by http": "__import__('pandas').read_csv('http://127.0.0.1:PORT/x.csv')",
        "asyncio": "__import__('asyncio').new_event_loop()",
        "manager": "__import__('multiprocessing.managers').managers.SyncManager().start()",
        "logging": "__import__('logging.handlers').handlers.SysLogHandler()",
        "unix socket": "__import__('_socket').socket(1, 1).connect('NAMED')",
    }
    return out
