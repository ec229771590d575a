"""Pages as a parser and as a browser see them."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from collections.abc import Iterable
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

VOID = {"meta", "link", "img", "br", "source", "input"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Page(HTMLParser):
    """Collects what is on a page, and refuses tags that are not closed in order."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.words: list[str] = []
        self.content = path.read_text(encoding="utf-8")
        self.feed(self.content)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attrs for name, attrs in self.tags if name == tag]


def assert_sound(page: Page, parts: Iterable[str]) -> None:
    """A page has its sections in their order, all linked; loads nothing; and can be read aloud."""
    sections = [attrs["id"] for attrs in page.all("section")]
    links = {attrs["href"].removeprefix("#") for attrs in page.all("a")}
    assert [name for name in sections if name in parts] == list(parts)
    assert set(parts) <= links <= set(sections)
    for tag, attrs in page.tags:
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("data:", "#")), (tag, attrs)
    assert not re.search(r"url\(|@import", page.content)
    assert page.all("script") == []
    assert page.all("html")[0]["lang"] == "en"
    assert all(len(attrs["alt"]) > 20 for attrs in page.all("img"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert all(attrs["scope"] in ("row", "col") for attrs in page.all("th"))
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


PROBE = """
<iframe width="{width}" height="900" srcdoc="{page}"></iframe>
<script>
window.addEventListener("load", () => {{
  const page = document.querySelector("iframe").contentDocument;
  const pictures = [...page.images];
  const bad = pictures.filter((image) => !image.complete || image.naturalWidth === 0 || image.naturalHeight === 0);
  const wide = page.documentElement.scrollWidth > page.documentElement.clientWidth;
  document.title = `pictures ${{pictures.length}} bad ${{bad.length}} wide ${{wide}}`;
}});
</script>
"""


def opened(page: Path, folder: Path, width: int) -> tuple[str, list[str]]:
    """Open a page in Chromium, in a frame so narrow or wide: how its pictures are, and what the console says."""
    probed = folder / "probed.html"
    probed.write_text(PROBE.format(width=width, page=html.escape(page.read_text(encoding="utf-8"))), encoding="utf-8")
    command = [
        *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
        *(f"--user-data-dir={folder / 'profile'}", "--window-size=1500,1000"),
        *("--enable-logging=stderr", "--virtual-time-budget=10000", "--dump-dom", probed.as_uri()),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    title = re.search("<title>(.*?)</title>", done.stdout)[1]
    return title, [line for line in done.stderr.splitlines() if "CONSOLE" in line]
