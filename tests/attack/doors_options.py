"""Absurd options: numbers that no machine carries, settings that would never end, words that are none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

from attack import base
from attack.cases import REFUSE, Case, Door, Ended, command
from attack.doors_logs import FORMATS
from attack.doors_logs import write_log as write
from attack.junk import cleared, dumps

WORDS = ("abc", "", " ", "nan", "NaN", "1,5", "0x10", "--", "1e", "\x1b[31m1", "½", "9" * 400 + "x", "None", "true")
FRACTIONS = ("1.5", "1e3", "inf", "-inf", "1e400", "-0.5")
HUGE = ("9" * 400, str(2**63), "-" + "9" * 400, str(-(2**63)))
ABSURD = (str(10**12), str(2**62))


def whole(least: int, *, bounded: bool = False) -> tuple[str, ...]:
    """Return what a whole number from `least` on must not be; some would never end."""
    return (*WORDS, *FRACTIONS, *HUGE, str(least - 1), str(least - 1000), *(ABSURD if bounded else ()))


SEED = (*WORDS, *FRACTIONS, "-1", "-" + "9" * 400)
POSITIVE = (*WORDS, "inf", "-inf", "1e400", "-1", "-1e-300")
SHARE = (*POSITIVE, "0", "1", "1.5", "2")
CHOICE = ("", "abc", " ", "\x1b[31m", "NONE", "1")

OPTIONS: dict[str, tuple[tuple[str, ...], dict[str, tuple[str, ...]]]] = {
    "fit": (
        ("fit", "few.jsonl", "--out", "out.json"),
        {
            "--restarts": whole(1, bounded=True),
            "--seed": SEED,
            "--ridge": POSITIVE,
            "--floor": POSITIVE,
            "--memory": (*POSITIVE, "1.1", "learned"),
            "--family": CHOICE,
            "--timing": CHOICE,
            "--unmarked": CHOICE,
        },
    ),
    "sample": (
        ("sample", "few.jsonl", "--out", "out.nc"),
        {
            "--draws": whole(4, bounded=True),
            "--tune": whole(1, bounded=True),
            "--chains": (*whole(1, bounded=True), "100000"),
            "--seed": SEED,
            "--target-accept": SHARE,
            "--memory": (*POSITIVE, "1.1", "profile"),
            "--family": CHOICE,
            "--timing": CHOICE,
            "--unmarked": CHOICE,
        },
    ),
    "score": (("score", "p.nc", "few.jsonl", "--out", "out.csv"), {"--probability": SHARE}),
    "report": (("report", "p.nc", "few.jsonl", "--out", "out.html"), {"--alpha": (*POSITIVE, "0", "1.5")}),
    "select": (
        ("select", "fit.json", "few.jsonl", "--cap", "50", "--step-budget", "40", "--out", "out.json"),
        {
            "--cap": POSITIVE,
            "--n": whole(1, bounded=True),
            "--step-budget": whole(1),
            "--seed": SEED[:8],
            "--candidates": CHOICE,
            "--handoff": CHOICE,
            "--rule": (*CHOICE, "0.5", "0", "2", "nan"),
            "--cheap-cost": POSITIVE,
            "--strong-cost": POSITIVE,
        },
    ),
    "recommend": (
        ("recommend", "few.jsonl", "--cap", "50", "--step-budget", "40", "--out", "out.json"),
        {
            "--cap": (*POSITIVE, "50%%", "%", "-5%", "nan%"),
            "--share": SHARE,
            "--folds": whole(2),
            "--seed": SEED,
            "--handoff": CHOICE,
            "--timing": CHOICE,
            "--unmarked": CHOICE,
            "--step-budget": whole(1),
        },
    ),
    "import": (
        ("import", "cheap.jsonl", "strong.jsonl", "--out", "out.jsonl"),
        {
            "--threshold": (*WORDS, "inf", "1e400"),
            "--longest": whole(1),
            "--workers": whole(1, bounded=True),
            "--trials": CHOICE,
            "--format": CHOICE,
            "--diagnostics": ("", "abc", ",", "repeated_call,repeated_call", " "),
        },
    ),
    "teach": (
        ("teach", "few.jsonl", "--out", "out.jsonl"),
        {"--rule": whole(1), "--diagnostics": ("", "abc", ","), "--evidence": CHOICE},
    ),
    "collect": (
        ("collect", "--benchmark", "simulations.alfworld:benchmark", "--data", "nowhere", "--out", "out"),
        {
            "--actions": whole(1),
            "--cost": CHOICE,
            "--benchmark": CHOICE,
            "--seed": SEED,
            "--cheap": (
                "http://",
                "http://[",
                "https://a b/v1",
                "http://host:99999/v1",
                "ftp://x",
                "",
                "nowhere",
                "http://é\x00/",
            ),
        },
    ),
}
"""By command: the words of a good call, and for each option what it must not be."""


def options(home: Path, _: Random, commands: list[str]) -> Iterator[Case]:
    """One option is wrong."""
    folder = base.written(home / "options", "few.jsonl", "fit.json", "p.nc")
    for name in ("cheap.jsonl", "strong.jsonl"):
        write(folder / name, FORMATS["openai"][1])

    for name in commands:
        words, known = OPTIONS[name]
        (folder / "words.json").write_text(json.dumps(["summary", "few.jsonl"]))
        door = Door(f"options of {name}", _said, folder)
        for option, values in known.items():
            for value in values:
                given = _with(list(words), option, value)
                if name == "teach" and option != "--rule":
                    given += ["--rule", "3"]
                if name == "collect" and option == "--cheap":
                    given += ["--cheap-model", "m"]
                yield Case(door, f"{option} {value[:20]!r}", _words(given), REFUSE, _words_for(option))
        for what, given in {
            "an option that is none": [*words, "--nothing"],
            "an argument too much": [*words, "more"],
            "no output": [word for word in words if word != "--out" and not word.startswith("out")],
            "an output in no folder": [word.replace("out.", "nowhere/out.") for word in words]
            if name != "collect"
            else [*words, "--first", "x"],
            "a suffix that is none": [word.replace("out.", "out.x") for word in words]
            if name not in ("collect", "report")
            else [*words, "--nothing"],
        }.items():
            yield Case(door, what, _words(given), REFUSE)


def _words_for(option: str) -> tuple[str, ...]:
    """Return how a refusal may call an option."""
    plain = option[2:]
    return (
        option,
        plain.replace("-", "_"),
        plain.replace("-", " "),
        *{"--cheap": ("base_url",), "--diagnostics": ("diagnostic",)}.get(option, ()),
    )


def _said(folder: Path) -> Ended:
    """Run the words that the case has put there."""
    words = json.loads((folder / "words.json").read_bytes())
    return command(*words)(folder)


def _with(words: list[str], option: str, value: str) -> list[str]:
    if option in words:
        words[words.index(option) + 1] = value
        return words
    return [*words, option, value]


def _words(words: list[str]):
    def prepare(folder: Path) -> None:
        cleared(folder / "words.json").write_bytes(dumps(words))

    return prepare
