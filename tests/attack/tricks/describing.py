"""Modes, owners, times and attributes of files outside, by name and by a folder's descriptor."""

from __future__ import annotations


def tricks() -> dict[str, str]:
    root = "os.open('/', 0)"
    return {
        "chmod": "os.chmod('LABEL', 0)",
        "chmod from root": f"os.chmod('LABEL'[1:], 0, dir_fd={root})",
        "chmod from working folder": "os.chmod('..' + 'LABEL', 0, dir_fd=os.open('.', 0))",
        "chmod of the folder": "os.chmod('FOLDER', 0o777)",
        "chmod of the library": "os.chmod(os.__file__, 0o777)",
        "pathlib chmod": "pathlib.Path('LABEL').chmod(0o777)",
        "chown": "os.chown('LABEL', 65534, 65534)",
        "chown from root": f"os.chown('LABEL'[1:], 65534, 65534, dir_fd={root})",
        "lchown": "os.lchown('LABEL', 65534, 65534)",
        "utime": "os.utime('LABEL', (0, 0))",
        "utime from root": f"os.utime('LABEL'[1:], (0, 0), dir_fd={root})",
        "utime from working folder": "os.utime('..' + 'LABEL', (0, 0), dir_fd=os.open('.', 0))",
        "touch": "pathlib.Path('LABEL').touch()",
        "setxattr": "os.setxattr('LABEL', 'user.x', b'1')",
        "removexattr": "os.removexattr('LABEL', 'user.x')",
        "libc chmod": "past('libc.chmod(b\"LABEL\", 511)')",
        "libc fchmodat": "past('libc.fchmodat(-100, b\"LABEL\", 511, 0)')",
        "libc chown": "past('libc.chown(b\"LABEL\", 1, 1)')",
        "libc utime": "past('libc.utime(b\"LABEL\", None)')",
        "libc utimensat": "past('libc.utimensat(-100, b\"LABEL\", None, 0)')",
        "libc setxattr": 'past(\'libc.setxattr(b"LABEL", b"user.x", b"1", 1, 0)\')',
        "libc mkdir": "past('libc.mkdir(b\"FOLDER/new\", 511)')",
        "libc link": 'past(\'libc.link(b"LABEL", b"hard2")\')',
        "libc symlink": 'past(\'libc.symlink(b"x", b"FOLDER/new")\')',
    }
