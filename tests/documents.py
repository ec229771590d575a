"""Markdown as far as the tests of documents need it: fenced blocks, anchors of headings, links, code."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

FENCE = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^(#{1,6}) (.+)$", flags=re.MULTILINE)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
CODE = re.compile(r"`[^`\n]+`")


@dataclass(frozen=True)
class Block:
    """A fenced block, and the second-level heading that it stands under."""

    language: str
    body: str
    section: str

    @property
    def file(self) -> str | None:
        """The file that a block of Python is said to be, in its first line."""
        named = re.match(r"# (\S+\.py)\n", self.body)
        return named[1] if named else None


@dataclass(frozen=True)
class Document:
    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def blocks(self) -> list[Block]:
        found = []
        for match in FENCE.finditer(self.text):
            above = re.findall(r"^## (.+)$", FENCE.sub("", self.text[: match.start()]), flags=re.MULTILINE)
            found.append(Block(match[1], match[2], above[-1] if above else ""))
        return found

    @cached_property
    def without_blocks(self) -> str:
        return FENCE.sub("", self.text)

    @cached_property
    def anchors(self) -> set[str]:
        """As code hosts make them: lower case, spaces to hyphens, punctuation gone, a number on what is repeated."""
        seen: dict[str, int] = {}
        out = set()
        for _, title in HEADING.findall(self.without_blocks):
            plain = LINK.sub(r"\1", title.strip()).replace("`", "").lower()
            slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
            out.add(f"{slug}-{seen[slug]}" if slug in seen else slug)
            seen[slug] = seen.get(slug, 0) + 1
        return out

    @cached_property
    def links(self) -> list[str]:
        return [target for _, target in LINK.findall(CODE.sub("", self.without_blocks))]

    @cached_property
    def code(self) -> list[str]:
        """What is in backquotes in the prose."""
        return [found.strip("`") for found in CODE.findall(self.without_blocks)]
