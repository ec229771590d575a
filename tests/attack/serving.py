"""Sessions that the gateway's own core serves, with its log and its store."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from conversations import answer, asked, call, turn

from bayes_tacit.gateway import Engine, FileStore, Identity, Reply, SessionLog, Sessions, default_router

BAD_TURNS = (2, 5, 6, 8)
"""After some of them the default router hands off."""

TURNS = 12


def serve(folder: Path, sessions: int = 40) -> None:
    """Serve sessions; those that a log names already are gone on with, by clients that know of no interruption."""
    folder.mkdir(exist_ok=True)
    log, begun = folder / "served.jsonl", defaultdict(int)
    for line in log.read_bytes().splitlines() if log.exists() else ():
        known = json.loads(line)
        begun[known["episode"]] += known["event"] == "reply"
    served = Sessions(Engine(default_router()), FileStore(folder / "sessions.sqlite"), SessionLog(log))
    for number in range(sessions):
        who = Identity("", f"task-{number}", "test")
        for length in range(begun[who.session], TURNS):
            ticket = served.begin(who, _conversation(length))
            served.replied(ticket, ticket.ruling.side, Reply(), seconds=0.1)
        if begun[who.session] < TURNS:
            served.outcome("", who.session, {"success": True})
    served.store.close()


def _conversation(length: int) -> list[dict[str, object]]:
    messages = [asked("How many rows has t?")]
    for number in range(length):
        bad = number in BAD_TURNS
        messages += [turn(call("sql", f"c{number}", query="SELECT" if bad else f"SELECT {number}"))]
        messages += [answer("Error: incomplete input" if bad else f"[({number},)]", f"c{number}")]
    return messages
