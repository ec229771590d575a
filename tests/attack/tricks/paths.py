"""One file outside, spelled in every way that may lead around a wall, for every call that takes a path."""

from __future__ import annotations

SPELLINGS = {
    "plain": "'LABEL'",
    "two slashes": "'/' + 'LABEL'",
    "up and up": "'../../../../../../../../../..' + 'LABEL'",
    "up from the working folder": "'/tool/..' + 'LABEL'",
    "own folder": "'/proc/self/cwd/..' + 'LABEL'",
    "own root": "'/proc/self/root' + 'LABEL'",
    "root of the thread": "'/proc/thread-self/root' + 'LABEL'",
    "root of the task": "f'/proc/self/task/{os.getpid()}/root' + 'LABEL'",
    "root of init": "'/proc/1/root' + 'LABEL'",
    "folder of init": "'/proc/1/cwd/../../../../..' + 'LABEL'",
    "root of the parent": "'/proc/PARENT/root' + 'LABEL'",
    "descriptor of the root": "f'/proc/self/fd/{os.open(chr(47), os.O_PATH)}' + 'LABEL'",
    "descriptor of the folder": "f'/proc/self/fd/{os.open(chr(46), os.O_PATH)}/../../../..' + 'LABEL'",
    "link": "linked('LABEL')",
    "link to the folder": "linked('FOLDER') + '/' + os.path.basename('LABEL')",
    "link by a link": "linked(linked('LABEL'))",
    "mapped file": "f'/proc/self/map_files/../root' + 'LABEL'",
}
"""Python that gives the path."""

CALLS = {
    "open": "past('libc.open(path, 0)')",
    "open to write": "past('libc.open(path, 1)')",
    "openat": "past('call(257, -100, path, 0)')",
    "openat to append": "past('call(257, -100, path, 0o2001)')",
    "openat2": "past('call(437, -100, path, buffer, 24)')",
    "creat": "past('call(85, path, 0o666)')",
    "truncate": "past('call(76, path, 0)')",
    "rename away": "past('call(82, path, b\"mine\")')",
    "renameat2": "past('call(316, -100, path, -100, b\"mine\", 0)')",
    "rename over": "(open('m', 'w').close(), past('call(82, b\"m\", path)'))[1]",
    "link": "past('call(86, path, %r)' % f'hard{os.urandom(4).hex()}'.encode())",
    "linkat": "past('call(265, -100, path, -100, b\"hard\", 0x400)')",
    "unlink": "past('call(87, path)')",
    "unlinkat": "past('call(263, -100, path, 0)')",
    "chmod": "past('call(90, path, 0o777)')",
    "chown": "past('call(92, path, 65534, 65534)')",
    "utimensat": "past('call(280, -100, path, 0, 0)')",
    "setxattr": 'past(\'call(188, path, b"user.x", b"1", 1, 0)\')',
    "mkdir beside": "past('call(83, path + b\".folder\", 0o777)')",
    "symlink beside": 'past(\'call(88, b"x", path + b".link")\')',
    "execve": "past('call(59, path, 0, 0)')",
}
"""Expressions on `path`; past the C library where it has a call of that name only in newer versions."""

OF_THE_LINK = (
    "rename away",
    "renameat2",
    "rename over",
    "unlink",
    "unlinkat",
    "link",
    "symlink beside",
    "mkdir beside",
)
"""Done to a link of its own, or beside it, these are done in the working folder and allowed."""


def tricks() -> dict[str, str]:
    return {
        f"{call}, {spelling}": f"with_path({path}, {text!r})"
        for spelling, path in SPELLINGS.items()
        for call, text in CALLS.items()
        if not (path.startswith("linked(") and not path.endswith("('LABEL')") and call in OF_THE_LINK)
        or spelling == "link to the folder"
        if not (spelling in ("link", "link by a link") and call in OF_THE_LINK)
    }
