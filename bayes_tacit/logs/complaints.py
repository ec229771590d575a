"""Whether a tool's answer reports an error: from its text alone, without reading all of a long one."""

from __future__ import annotations

import re

WINDOW = 200
"""Characters at the start and at the end of an answer that are looked at."""

_OPENING = re.compile(r"[^\w{]*(?:[\w.]*error\b|[\w.]*exception\b|traceback\b|fatal\b|failed\b|failure\b)")
_ANYWHERE = re.compile(
    r"traceback \(most recent call last\)|^[\w.]*(?:error|exception): |command not found|no such file or directory"
    r"|permission denied|syntax error",
    re.MULTILINE,
)
_EXIT = re.compile(r"(?:exit(?:ed with)?[ _-]?(?:code|status)?|return[ _-]?code)[\"'>:=()\s]{0,4}(-?\d+)")
_FIELD = re.compile(
    r'"error(?:_message)?"\s*:\s*(?!\s|null|""|false|\[\]|\{\})|"is_error"\s*:\s*true'
    r'|"status"\s*:\s*"(?:error|failed|failure)"'
)


def reports_error(text: str) -> bool:
    r"""Tell whether a tool's answer is an error: it begins with one, a shell says so, or an exit code is not zero.

    Only the first and the last 200 characters are looked at, so a word somewhere in a long page does not count, and a
    long page costs no more than a short one.

    Examples
    --------
    >>> [reports_error(text) for text in ("Error: no table", "0 errors", "done\nexit code: 2", "exit code 0")]
    [True, False, True, False]
    """
    start = text.lower() if len(text) <= 2 * WINDOW else text[:WINDOW].lower()
    if _hints(start) and (_OPENING.match(start) is not None or _complains(start)):
        return True
    if len(text) <= 2 * WINDOW:
        return False
    end = text[-WINDOW:].lower()
    return _hints(end) and _complains(end)


def _hints(seen: str) -> bool:
    """Tell whether a pattern may match: most answers hold none of these, and this is many times faster."""
    return (
        "rror" in seen
        or ("x" in seen and ("exit" in seen or "xception" in seen))
        or "fa" in seen
        or "code" in seen
        or "no such" in seen
        or "not found" in seen
        or "denied" in seen
    )


def _complains(seen: str) -> bool:
    if _ANYWHERE.search(seen) or any(int(code) != 0 for code in _EXIT.findall(seen)):
        return True
    return "{" in seen and _FIELD.search(seen) is not None
