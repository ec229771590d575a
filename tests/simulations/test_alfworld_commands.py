"""The commands that play ALFWorld, on kitchens of our own: collect and evaluate."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from alfworld_fit import fit_of_made_up_episodes
from command_line import call, run
from protocol_server import ProtocolServer, says, status

from bayes_tacit import Router
from bayes_tacit.agents import History, Step, read_transcript
from simulations.alfworld import AlfworldEnvironment, AlfworldExtractor, CheapActor, StrongActor, write_kitchens

ACTIONS = 10


def on_kitchens(command, data, more):
    return f"{command} --benchmark simulations.alfworld:benchmark --data {data} --split own {more}".split()


def called(*words, cwd):
    """Run the program in this process; return exit code, output and errors."""
    done = call(*words, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_kitchens(folder, "own", 2, seed=1)
    return folder


@pytest.fixture(scope="module")
def collected(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    words = on_kitchens("collect", data, "--first 2 --actions 8 --seed 4")
    done = run(*words, "--out", "rollouts", "--counterfactuals", "handoffs.csv", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder, words, done


def test_collect_keeps_rollouts_and_goes_on_from_them(collected):
    folder, words, done = collected
    told = json.loads(done.stdout)
    assert told["games"] == sum(told["outcomes"].values()) == 2
    assert told["broken"] == []
    transcripts = [read_transcript(path) for path in sorted((folder / "rollouts").glob("*.jsonl"))]
    assert [one.header.policy for one in transcripts] == ["pure_cheap", "pure_strong"] * 2
    counts = {}
    for cheap, strong in zip(transcripts[::2], transcripts[1::2], strict=True):
        outcome = f"{cheap.end.success:d}{strong.end.success:d}"
        counts[outcome] = counts.get(outcome, 0) + 1
    assert {outcome: n for outcome, n in told["outcomes"].items() if n} == counts
    table = pd.read_csv(folder / "handoffs.csv")
    assert table["episode"].nunique() == 2
    assert done.stderr == ""
    code, output, errors = called(*words, "--out", "rollouts", cwd=folder)
    assert (code, errors) == (0, "")
    assert output.startswith("2 games: ")
    code, output, errors = called(*words[:-1], 5, "--out", "rollouts", cwd=folder)
    assert (code, output) == (2, "")
    assert "use another folder" in errors
    assert errors.count("\n") == 1


def test_evaluate_plays_a_router_beside_the_pure_policies(collected, data):
    folder, *_ = collected
    router = Router.from_fit(fit_of_made_up_episodes(), alpha=0.1)
    router.save(folder / "router.json")
    (folder / "games.txt").write_text("own/task-01/trial_1\n\nown/task-00/trial_1\n")
    words = on_kitchens("evaluate router.json", data, f"--games games.txt --actions {ACTIONS} --seed 4 --deferral 0.5")
    words += ["--out", "played", "--resamples", "50"]
    done = run(*words, "--pages", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert list(told["policies"]) == ["Pure Cheap", "router", "Step Deferral 0.5", "Pure Strong"]
    # The same by a plain loop that asks the router.
    cheap, strong = CheapActor(4), StrongActor(4)
    successes = cost = 0
    for name in ("task-01", "task-00"):
        game = data / "json_2.1.1" / "own" / name / "trial_1" / "game.tw-pddl"
        with AlfworldEnvironment(game) as environment:
            history = History(environment.reset())
            features = AlfworldExtractor().features(history.first)
            state = router.start({name: features[name] for name in router.feature_names})
            handed = False
            while len(history) < ACTIONS and not (history.steps and history.steps[-1].result.done):
                proposal = (strong if handed else cheap).act(history)
                result = environment.step(proposal.action)
                cost += 6.75 if handed else 1
                step = Step("strong" if handed else "cheap", proposal, result)
                if not handed:
                    given = AlfworldExtractor().diagnostics(history, proposal, result)
                    handed = state.observe({name: given[name] for name in router.diagnostic_names}).handoff
                history = history.then(step)
            successes += history.steps[-1].result.success
    assert told["policies"]["router"]["successes"] == successes
    assert told["policies"]["router"]["cost"] == pytest.approx(cost / 2)
    assert len(list((folder / "played" / "pages").glob("*.html"))) == 2
    code, output, errors = called(*words, cwd=folder)
    assert (code, errors) == (0, "")
    assert f"router             {successes:>4}/2" in output


@pytest.mark.study
def test_collect_with_a_model_behind_an_endpoint(data, tmp_path):
    words = on_kitchens("collect", data, "--first 1 --actions 3 --json")
    with ProtocolServer(says("look")) as server:
        words = (*words, "--cheap", server.base_url, "--cheap-model", "tiny")
        done = run(*words, "--out", "out", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert [request["body"]["model"] for request in server.requests] == ["tiny"] * 3
        # In another process, with functions at other addresses, it is the same player still.
        code, output, errors = called(*words, "--out", "out", cwd=tmp_path)
        assert (code, output, errors) == (0, done.stdout, "")
        assert len(server.requests) == 3
        server.server.script[:] = [status(400)]
        code, output, _ = called(*words, "--out", "other", cwd=tmp_path)
    assert code == 1
    assert json.loads(output)["broken"] == ["own/task-00/trial_1"]
    cheap = read_transcript(next((tmp_path / "out").glob("*.cheap.jsonl")))
    assert [step.proposal.action for step in cheap.steps] == ["look"] * 3
    assert cheap.steps[0].proposal.nll == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cheap", "nonsense"), "--cheap is 'nonsense'; expected scripted, http"),
        (("--benchmark", "nonsense"), "--benchmark is 'nonsense'; expected module:object, or the name of an installed"),
        (("--benchmark", "nowhere:benchmark"), "expected module:object of a module that can be imported"),
        (("--benchmark", "simulations.alfworld:other"), "expected an object that simulations.alfworld has"),
        (("--benchmark", "simulations.alfworld:Alfworld"), "expected a bayes_tacit.agents.benchmark.Suite, not type"),
        (("--unsafe-sandbox",), "expected none with --benchmark simulations.alfworld:benchmark"),
        (("--cheap", "http://127.0.0.1:9/v1"), "--cheap-model is None; expected the name of the model there"),
        (("--strong-model", "x"), "expected none with --strong scripted"),
        (("--split", "nowhere"), "no such folder"),
        (("--first", "0"), "--first is 0"),
        (("--actions", "0"), "budget of actions is 0"),
        (("--games", "nowhere.txt"), "no such file"),
    ],
)
def test_bad_words_are_told_before_anything_is_played(data, tmp_path, words, message):
    code, output, errors = called(*on_kitchens("collect", data, "--out o"), *words, cwd=tmp_path)
    assert (code, output) == (2, "")
    assert message in errors
    assert not (tmp_path / "o").exists()
