"""Routers are compared by the log's probabilities: right on average, with intervals that hold, or "cannot tell"."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pytest
from command_line import call
from talks import TASK, TOOLS, counting, talk

from bayes_tacit import Router
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway import Engine, Identity, Plan, Reply, SessionLog, Sessions
from bayes_tacit.logs.reader import Reader
from bayes_tacit.monitor.comparing import CHEAP, STRONG, compare_routers
from bayes_tacit.router.rules import Signal

LATE, EARLY = counting(2), counting(1)
STEPS = 4


def solved(turns: str, handed: int | None, luck: float) -> bool:
    """Cheap fails more the more it erred; Strong mends that, less well the later it comes."""
    errors = turns.count("!")
    chance = 0.85 - 0.25 * errors if handed is None else 0.9 - 0.1 * max(0, handed)
    return luck < chance


def cost(handed: int | None) -> int:
    cheap = STEPS + 1 if handed is None else handed + 1
    return cheap + 10 * (STEPS + 1 - cheap)


def handoff(turns: str, signs: int) -> int | None:
    found = [at for at in range(STEPS) if turns[: at + 1].count("!") >= signs]
    return found[0] if found else None


def play(log: Path, rng: np.random.Generator, sessions: int, plan: Plan) -> None:
    """Serve sessions of tasks, some of which are harder, as the prompt's length says."""
    served = Sessions(Engine(LATE, canary=EARLY), log=SessionLog(log), plan=plan, rng=Random(int(rng.integers(2**31))))
    for number in range(sessions):
        hard = bool(rng.random() < 0.5)
        turns = "".join("!" if rng.random() < (0.5 if hard else 0.1) else "." for _ in range(STEPS))
        who = Identity("k", f"s{number}", "mine")
        begun = [TASK[0], {"role": "user", "content": "Hard, or so it seems?" if hard else "Easy?"}]
        for end in range(STEPS + 1):
            ticket = served.begin(who, talk(turns[:end], begun), TOOLS, task=f"t{number}")
            served.replied(ticket, ticket.ruling.side, Reply())
        known = served.look("k", who.session)
        served.outcome("k", who.session, {"success": solved(turns, known["handoff_step"], rng.random())})


def truth(signs: int | None, what: str, rng: np.random.Generator, n: int = 40_000) -> float:
    found = []
    for _ in range(n):
        turns = "".join(np.where(rng.random(STEPS) < (0.5 if rng.random() < 0.5 else 0.1), "!", "."))
        handed = -1 if signs == -1 else None if signs is None else handoff(turns, signs)
        found.append(solved(turns, handed, rng.random()) if what == "success" else cost(handed))
    return float(np.mean(found))


PLAN = Plan(explore=0.2, canary=0.3)
MEANT = {CHEAP: None, STRONG: -1, "late": 2, "early": 1}


@pytest.mark.slow
def test_estimates_are_right_on_average_and_intervals_hold(tmp_path):
    rng, rounds = np.random.default_rng(7), 60
    wanted = {(name, what): truth(signs, what, rng) for name, signs in MEANT.items() for what in ("success", "cost")}
    held = {key: [] for key in wanted}
    centers = {key: [] for key in wanted}
    for number in range(rounds):
        log = tmp_path / f"{number}.jsonl"
        play(log, rng, 150, PLAN)
        found = compare_routers(log, {"late": LATE, "early": EARLY})
        for value in found.values:
            for what in ("success", "cost"):
                estimate, lower, upper = getattr(value, what)
                held[value.name, what].append(lower <= wanted[value.name, what] <= upper)
                centers[value.name, what].append(estimate)
    for key, target in wanted.items():
        error = np.std(centers[key]) / np.sqrt(rounds)
        assert abs(np.mean(centers[key]) - target) < 3.5 * error + 1e-9, key
    coverage = np.mean([np.mean(one) for one in held.values()])
    assert 0.92 < coverage < 0.985


def test_sessions_that_cheap_happened_to_end_flatter_it_and_weights_do_not(tmp_path):
    rng, log = np.random.default_rng(3), tmp_path / "log.jsonl"
    play(log, rng, 1500, PLAN)
    served = {}
    for line in map(json.loads, log.read_text().splitlines()):
        if line["event"] == "step":
            served.setdefault(line["episode"], []).append(line["side"])
        if line["event"] == "outcome":
            served[line["episode"]].append(line["success"])
    naive = np.mean([one[-1] for one in served.values() if "strong" not in one])
    real = truth(None, "success", rng)
    found = {one.name: one for one in compare_routers(log, {"late": LATE, "early": EARLY}).values}
    assert naive > real + 0.08
    assert found[CHEAP].success[1] < real < found[CHEAP].success[2]
    assert found[CHEAP].supported == 1


def test_a_router_that_never_served_cannot_be_told_of_where_nobody_did_as_it_would(tmp_path):
    log = tmp_path / "log.jsonl"
    play(log, np.random.default_rng(4), 300, Plan(explore=0.4))
    found = compare_routers(log, {"late": LATE, "early": EARLY})
    values = {one.name: one for one in found.values}
    assert values["early"].supported < 0.9
    assert values["late"].supported == 1
    assert "does what nobody did: serve it with --canary" in " ".join(found.verdicts)


def test_times_without_a_router_do_not_count_for_it(tmp_path):
    log, rng = tmp_path / "log.jsonl", np.random.default_rng(5)
    play(log, rng, 200, PLAN)
    before = compare_routers(log, {"late": LATE, "early": EARLY})
    other = tmp_path / "other.jsonl"
    play(other, rng, 200, Plan())
    merged = tmp_path / "merged.jsonl"
    merged.write_text(log.read_text() + other.read_text().replace('"episode": "s', '"episode": "u'))
    after = compare_routers(merged, {"late": LATE, "early": EARLY})
    counts = [{one.name: one.sessions for one in found.values} for found in (before, after)]
    assert counts[0] == dict.fromkeys(MEANT, 200)
    assert counts[1] == {**counts[0], "late": 400}


def test_the_command_says_what_can_be_told(tmp_path):
    play(tmp_path / "log.jsonl", np.random.default_rng(6), 60, PLAN)
    LATE.save(tmp_path / "late.json")
    EARLY.save(tmp_path / "early.json")
    done = call("compare-routers", "log.jsonl", "--routers", "late.json", "early.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "cannot tell yet" in done.stdout
    assert "more explored sessions" in done.stdout
    content = json.loads(call("compare-routers", "log.jsonl", "late.json", "early.json", "--json", cwd=tmp_path).stdout)
    assert [one["name"] for one in content["values"]] == [CHEAP, STRONG, "late", "early"]
    refused = call("compare-routers", "log.jsonl", "early.json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "the routers that served" in refused.stderr


def test_routers_that_do_the_same_are_told_to(tmp_path):
    log = tmp_path / "log.jsonl"
    play(log, np.random.default_rng(8), 80, Plan(explore=0.5))
    found = compare_routers(log, {"late": LATE, "again": LATE})
    assert found.verdicts == ["again and late would have done the same in every session."]


def test_a_log_without_outcomes_is_refused(tmp_path):
    log = SessionLog(tmp_path / "log.jsonl")
    Sessions(Engine(LATE), log=log).begin(Identity("k", "s", "mine"), TASK)
    with pytest.raises(InvalidDataError, match="an outcome"):
        compare_routers(log.path, {"late": LATE})


def test_routers_that_look_at_words_are_compared_by_what_the_log_has_of_their_reader(tmp_path):
    rng, blank = np.random.default_rng(2), Reader.blank()
    of = replace(blank, words=rng.normal(size=blank.words.shape), numbers=rng.normal(size=blank.numbers.shape) / 9)
    seen = {"diagnostic_names": ("cheap_fails",), "feature_names": ("cheap_promise", "prompt_length"), "reader": of}
    first, never = (Router(rule=Signal(), alpha=alpha, **seen) for alpha in (0.5, 2.0))
    log = SessionLog(tmp_path / "log.jsonl")
    served = Sessions(Engine(first), log=log, plan=Plan(explore=0.5), rng=Random(1))
    handed = routed = 0
    for number in range(40):
        who, turns = Identity("k", f"s{number}", "mine"), "".join(rng.choice([".", "!"], size=3))
        for end in range(4):
            ticket = served.begin(who, talk(turns[:end]), TOOLS, task=f"t{number}")
            served.replied(ticket, ticket.ruling.side, Reply())
        kept = served.look("k", who.session)
        handed, routed = handed + kept["latched"] * (kept["arm"] == "router"), routed + (kept["arm"] == "router")
        served.outcome("k", who.session, {"success": True})
    found = {one.name: one for one in compare_routers(log.path, {"first": first, "never": never}).values}
    assert handed
    assert found["first"].alike >= routed
    assert found["never"].alike == found[CHEAP].alike
    other = replace(never, reader=replace(of, words=-of.words))
    with pytest.raises(InvalidDataError, match=r"reader of a router is .*expected that of the router that served"):
        compare_routers(log.path, {"first": first, "other": other})
