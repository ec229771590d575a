"""What writes while agents are at work: games that are played by commands, sessions that are served, their page."""

from __future__ import annotations

import json
import warnings
from collections import defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from attack.doors_agents import LABEL, QUESTION
from attack.junk import dumps
from attack.serving import serve
from attack.signals import Writer
from attack.writers import read_page
from toy_world import threshold_router

from bayes_tacit.agents import Budget, Proposal, read_transcripts
from bayes_tacit.agents.playing import Players
from bayes_tacit.agents.playing import collect as play
from simulations.dabench import DABench

SEATS = ("--cheap", "kept", "--strong", "kept")
COMMON = ("--benchmark", "simulations.dabench:benchmark", "--data", "d", *SEATS, "--cost", "9b", "--actions", "4")


@dataclass(frozen=True)
class Saying:
    """Says the replies of a list."""

    name: str
    replies: tuple[str, ...]

    def act(self, history) -> Proposal:
        said = sum(step.agent == self.name for step in history.steps)
        return Proposal(self.replies[said], nll=0.5 + said)


def needed_to_play(home: Path) -> Path:
    """Write questions, rollouts on them that are replayed, a router for them, and a log of served sessions."""
    (home / "d" / "da-dev-tables").mkdir(parents=True)
    (home / "d" / "da-dev-tables" / "plants.csv").write_text("height\n2\n3\n")
    for name, content in (("questions", QUESTION), ("labels", LABEL)):
        lines = [dumps(content | {"id": number}) + b"\n" for number in (2, 7, 10)]
        (home / "d" / f"da-dev-{name}.jsonl").write_bytes(b"".join(lines))
    # Without pandas, which takes a second to import in each call.
    code = "```python\nprint(open('plants.csv').read())\n```"
    cheap, strong = Saying("cheap", (code, "let me think", "@mean[4.00]")), Saying("strong", (code, "@mean[2.50]"))
    with warnings.catch_warnings(action="ignore"):
        play(DABench(home / "d"), home / "kept", Players(cheap, strong, budget=Budget(4, calls=4)))
    names = {"diagnostic_names": ("protocol_violation",), "feature_names": ("answer_arity",)}
    replace(threshold_router(1, "proposal"), **names).save(home / "router.json")
    serve(home)
    return home


def read_played(folder: Path) -> object:
    """What was done in every episode of every folder in it; none under its own name is torn or broken."""
    folders = [each for each in (folder, folder / "rollouts", folder / "played") if each.is_dir()]
    with warnings.catch_warnings(action="error"):
        found = {
            f"{each.name}/{name}": [step.proposal.action for step in transcript.steps]
            for each in folders
            for name, transcript in read_transcripts(each).items()
        }
    for page in (folder / "pages").glob("*.html"):
        found[page.name] = [str(read_page(page))]
    return found


def read_sessions(folder: Path) -> object:
    """Who made which reply, from lines none of which is torn; no session goes back to Cheap."""
    sides: dict[str, str] = defaultdict(str)
    log = folder / "served.jsonl"
    for line in log.read_bytes().splitlines() if log.exists() else ():
        known = json.loads(line)
        if known["event"] == "reply":
            sides[known["episode"]] += known["side"][0]
    assert not [served for served in sides.values() if "sc" in served], sides
    return dict(sides)


def playing_commands() -> list[Writer]:
    """Give what needs `needed_to_play`."""
    words = ["--out", "rollouts", "--counterfactuals", "c2.csv", "--force"]
    beside = ("rollouts-handoffs", "c2.csv")
    judged = ["evaluate", "router.json", *COMMON, "--out", "played", "--pages", "--resamples", "20"]
    pages = ["monitor", "served.jsonl", "--out", "m.html", "--force"]
    return [
        *(
            Writer(
                f"bayes-tacit collect --workers {number}",
                "rollouts",
                read_played,
                ["collect", *COMMON, *words, "--workers", str(number)],
                grows=True,
                beside=beside,
            )
            for number in (1, 2)
        ),
        Writer("bayes-tacit evaluate", "played", read_played, judged, grows=True),
        Writer("monitor", "m.html", read_page, pages),
        Writer(
            "serve --log --state",
            "sessions",
            read_sessions,
            work=lambda: serve(Path("sessions")),
            grows=True,
        ),
    ]
