"""The command that answers line by line: route."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import numpy as np
from command_line import PROGRAM, run

from bayes_tacit import Router, fit_map, handoff_score, load_example
from bayes_tacit.policies import Cascade
from bayes_tacit.router import Ranges, Start, replay


def test_route_answers_line_by_line_with_the_librarys_scores(example_folder):
    episodes = load_example()
    names = episodes.diagnostic_names
    q = handoff_score(fit_map(episodes), episodes).values
    lines, expected = [], []
    for i in (0, 7, 400):
        features = dict(zip(episodes.feature_names, episodes.dataset["features"].values[i].tolist(), strict=True))
        lines.append({"episode": i, "features": features})
        for step in range(int(episodes.dataset["n_steps"][i])):
            values = episodes.dataset["diagnostics"].values[i, step].tolist()
            lines.append({"episode": i, "diagnostics": dict(zip(names, values, strict=True))})
            expected.append(q[i, step])
        lines.append({"episode": i, "end": True})
    done = run("route", "router.json", cwd=example_folder, stdin="\n".join(map(json.dumps, lines)))
    assert done.returncode == 0, done.stderr
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(replies) == len(lines)
    scores = [reply["score"] for reply in replies if "score" in reply]
    np.testing.assert_allclose(scores, expected, rtol=1e-12)
    handed = [reply["handoff"] for reply in replies if "score" in reply]
    assert any(handed)
    assert [reply["score"] >= 0.3 for reply in replies if "score" in reply] == handed


def test_route_answers_a_bad_line_and_goes_on(example_folder):
    begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
    good = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
    bad = {"episode": "a", "diagnostics": {"repeat": -1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
    stdin = "\n".join([json.dumps(begin), json.dumps(bad), "garbage", json.dumps({"episode": "b"}), json.dumps(good)])
    done = run("route", "router.json", cwd=example_folder, stdin=stdin)
    assert done.returncode == 2
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert "expected a finite number >= 0" in replies[1]["error"]
    assert "expected a JSON object" in replies[2]["error"]
    assert "expected one of features, diagnostics and end" in replies[3]["error"]
    assert replies[4]["step"] == 0


def test_route_answers_before_the_next_line_comes(example_folder):
    with subprocess.Popen(
        [PROGRAM, "route", "router.json", "--json", "--seed", "1"],
        cwd=example_folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
        checkpoint = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
        whole = json.dumps(checkpoint).encode() + b"\n"
        for line in (json.dumps(begin).encode() + b"\n", whole, whole):
            # In two pieces, as a slow writer sends them.
            for piece in (line[:7], line[7:]):
                process.stdin.write(piece)
                process.stdin.flush()
            assert json.loads(process.stdout.readline())["episode"] == "a"
        process.stdin.write(whole.rstrip(b"\n"))
        process.stdin.close()
        assert json.loads(process.stdout.readline())["step"] == 2
        assert process.wait(timeout=60) == 0


def test_route_answers_what_is_no_text_or_too_long(example_folder):
    begin = json.dumps({"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}).encode()
    lines = [b"\xff\xfe\x00{", b'{"episode": "' + b"x" * 3 * 2**20 + b'"}', b"[" * 200_000, b"", begin]
    done = subprocess.run(
        [PROGRAM, "route", "router.json"], cwd=example_folder, input=b"\n".join(lines), capture_output=True, check=False
    )
    assert done.returncode == 2
    replies = [json.loads(line) for line in done.stdout.splitlines()]
    assert [reply.get("line") for reply in replies] == [1, 2, 3, None]
    assert "expected at most 1,048,576 bytes" in replies[1]["error"]
    assert replies[3] == {"episode": "a", "started": True}
    assert not done.stderr


def test_route_stops_at_a_bad_line_where_asked_and_keeps_the_log(example_folder, tmp_path):
    begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
    checkpoint = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
    stdin = "\n".join([json.dumps(begin), json.dumps(checkpoint), "nonsense", json.dumps(checkpoint)])
    done = run("route", "router.json", "--strict", "--log", tmp_path / "log.jsonl", cwd=example_folder, stdin=stdin)
    assert done.returncode == 2
    assert done.stderr.startswith("error: line 3: ")
    assert len(done.stdout.splitlines()) == 2
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2


def test_route_answers_the_start_and_warns_once_outside_the_range_of_training(tmp_path):
    training = load_example()
    router = Router.from_fit(fit_map(training), alpha=0.3)
    rule = replace(router.rule, start=Start(1.0, np.zeros(1), np.zeros((1, 3))))
    settings = {"alpha_start": -2.0, "call": "restart", "ranges": Ranges.of(training)}
    replace(router, rule=rule, **settings).save(tmp_path / "router.json")
    features = {"entities": 1000, "subgoals": 2, "needs_tool": 0}
    lines = [{"episode": name, "features": features} for name in ("a", "b")]
    done = subprocess.run(
        [PROGRAM, "route", tmp_path / "router.json"],
        input="\n".join(map(json.dumps, lines)),
        capture_output=True,
        text=True,
        check=True,
    )
    for answer, name in zip(map(json.loads, done.stdout.splitlines()), "ab", strict=True):
        assert (answer["episode"], answer["started"], answer["step"]) == (name, True, -1)
        assert (answer["handoff"], answer["call"], answer["alpha"]) == (True, "strong", -2.0)
    entities = training.dataset["features"].sel(feature="entities").values
    assert done.stderr.splitlines() == [
        f"warning: features['entities'] is 1000; in training it was from {entities.min():g} to {entities.max():g} "
        "(said once)"
    ]


def test_route_runs_a_policy_that_judges_the_finished_episode(tmp_path):
    training = load_example()
    Cascade().fit(training).router({"alpha": 1.0}).save(tmp_path / "router.json")
    features = dict.fromkeys(training.feature_names, 1.0)
    lines = [
        {"episode": "a", "features": features},
        {"episode": "a", "diagnostics": dict.fromkeys(training.diagnostic_names, 1.0)},
        {"episode": "a", "end": True},
    ]
    command = [PROGRAM, "route", tmp_path / "router.json", "--log", tmp_path / "log.jsonl"]
    done = subprocess.run(command, input="\n".join(map(json.dumps, lines)), capture_output=True, text=True, check=True)
    start, observed, end = map(json.loads, done.stdout.splitlines())
    assert start == {"episode": "a", "started": True}
    assert (observed["call"], observed["score"], observed["pi"]) == ("cheap", None, None)
    assert (end["ended"], end["call"], end["handoff"]) == (True, "restart", True)
    assert replay(tmp_path / "log.jsonl", Router.load(tmp_path / "router.json")).agrees


def test_after_the_last_step_route_hands_nothing_off(example_folder):
    """As the accounting has it: a restart after Cheap's last step is none."""
    begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
    bad = {"episode": "a", "diagnostics": {"repeat": 9, "uncertainty": 9, "stalled": 9, "invalid": 9}}
    for last, ended in (({}, 0), ({"last": True}, None)):
        stdin = "\n".join(map(json.dumps, [begin, {**bad, **last}, {"episode": "a", "end": True}]))
        done = run("route", "router.json", cwd=example_folder, stdin=stdin)
        _, step, end = map(json.loads, done.stdout.splitlines())
        assert (step["call"], step["handoff"]) == (("cheap", False) if last else ("strong", True))
        assert end["handoff_step"] == ended
    stdin = "\n".join(map(json.dumps, [begin, bad, {**bad, "last": True}]))
    *_, step = map(json.loads, run("route", "router.json", cwd=example_folder, stdin=stdin).stdout.splitlines())
    assert (step["call"], step["handoff_step"]) == ("strong", 0)  # it was handed off before its last step


def test_route_answers_on_where_its_log_cannot_be_written(example_folder):
    """Every write to /dev/full fails as on a full disk."""
    begin = {"episode": "a", "features": {"entities": 12, "subgoals": 3, "needs_tool": 1}}
    good = {"episode": "a", "diagnostics": {"repeat": 1, "uncertainty": 0.5, "stalled": 0, "invalid": 0}}
    stdin = "\n".join(map(json.dumps, [begin, good, good]))
    done, usual = (
        run("route", "router.json", *log, cwd=example_folder, stdin=stdin) for log in (("--log", "/dev/full"), ())
    )
    assert (done.returncode, done.stdout) == (2, usual.stdout)
    (said,) = done.stderr.splitlines()
    assert said.startswith("note: ")
    assert "No space left on device: '/dev/full'; decisions go on" in said


def test_route_leaves_a_file_that_is_no_log_as_it_is(example_folder, tmp_path):
    thesis = tmp_path / "thesis.bin"
    thesis.write_bytes(bytes(range(11, 256)) * 3000)
    done = run("route", "router.json", "--log", thesis, cwd=example_folder, stdin="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "thesis.bin: the end of it is" in done.stderr
    assert thesis.read_bytes() == bytes(range(11, 256)) * 3000
