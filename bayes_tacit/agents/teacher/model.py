"""A language model as teacher: its answer is checked, and it is told what was wrong until it fits."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from bayes_tacit import validate
from bayes_tacit.agents.endpoint import Endpoint
from bayes_tacit.agents.retry import Retry, asked_again
from bayes_tacit.agents.teacher.dataset import Lesson, Message, TeacherError
from bayes_tacit.agents.teacher.marks import Mark
from bayes_tacit.agents.transcript import StepRecord, Transcript
from bayes_tacit.errors import InvalidDataError

SHAPE = '{"earliest": ..., "latest": ..., "recommended": ..., "explanation": "..."}'


@dataclass(frozen=True)
class ModelTeacher:
    """Shows both rollouts to a model and asks for the range.

    The answer must be a JSON object with the whole numbers `earliest` <= `recommended` <= `latest` inside the Cheap
    rollout. Text around it and more keys are let pass; the explanation is kept in the exchange and not used. Where the
    answer is not so, the model is told what was wrong and asked again.

    Attributes
    ----------
    endpoint
        The model.
    attempts
        Answers in all before the teacher gives up on an episode.
    retry
        What to do about transient errors of the endpoint.
    longest_observation
        Observations are cut to so many letters.
    seed, sleep
        For the waits.
    """

    endpoint: Endpoint
    attempts: int = 3
    retry: Retry = field(default_factory=Retry)
    longest_observation: int = 600
    seed: int = 0
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        """Check the numbers."""
        validate.whole("attempts", self.attempts, 1)
        validate.whole("longest_observation", self.longest_observation, 1)

    @property
    def name(self) -> str:
        """Name for what is kept."""
        return f"model {self.endpoint.model}"

    def mark(self, cheap: Transcript, strong: Transcript) -> Lesson:
        """Mark one episode.

        Raises
        ------
        TeacherError
            If no answer passes the check.
        ActorError
            If the endpoint gives none.
        """
        exchange = self._opening(cheap, strong)
        n_steps = len(cheap.checkpoints)
        wrong = ""
        for _ in range(self.attempts):
            answer = self._complete(exchange)
            exchange.append({"role": "assistant", "content": answer})
            try:
                mark = read_answer(answer, n_steps, cheap.episode)
            except InvalidDataError as error:
                wrong = str(error)
                exchange.append(
                    {"role": "user", "content": f"That does not fit: {wrong}. Answer with one JSON object: {SHAPE}"}
                )
            else:
                return Lesson(cheap.episode, mark, self.name, tuple(exchange))
        # The last complaint was not sent.
        raise TeacherError(f"no usable mark in {self.attempts} answers: {wrong}", tuple(exchange[:-1]))

    @cached_property
    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)

    def _complete(self, exchange: list[Message]) -> str:
        def complete() -> str:
            return self.endpoint.complete(exchange).text

        answer, _ = asked_again(complete, self.name, self.retry, self._rng, self.sleep)
        return answer

    def _opening(self, cheap: Transcript, strong: Transcript) -> list[Message]:
        text = files("bayes_tacit.agents.teacher").joinpath("prompt.txt").read_text(encoding="utf-8")
        n_steps = len(cheap.checkpoints)
        values = {
            "task": cheap.task,
            "n_steps": n_steps,
            "last_step": n_steps - 1,
            "cheap": self._told(cheap),
            "strong": self._told(strong),
        }
        system, user = (Template(part).substitute(values) for part in text.strip("\n").split("\n---\n", 1))
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]

    def _told(self, transcript: Transcript) -> str:
        lines = [self._cut(transcript.history(0).first.text)]
        for step in transcript.executed:
            lines += [f"step {step.step}: {step.proposal.action}", self._cut(_seen(step))]
        return "\n".join(lines)

    def _cut(self, text: str) -> str:
        return text if len(text) <= self.longest_observation else f"{text[: self.longest_observation]} [...]"


def _seen(step: StepRecord) -> str:
    return "" if step.result is None else step.result.observation.text


def read_answer(answer: str, n_steps: int, episode: str) -> Mark:
    """Find the mark in an answer.

    Examples
    --------
    >>> read_answer('Sure: {"earliest": 2, "latest": 4, "recommended": 3, "explanation": "loops"}', 9, "task-1")
    Mark(start=2, end=4, recommended=3)
    """
    content = _first_object(answer)
    if content is None:
        raise InvalidDataError("a JSON object", episode=episode, field="answer", value=answer)
    numbers: dict[str, int] = {}
    for name in ("earliest", "latest", "recommended"):
        value = content.get(name)
        if type(value) is not int or not 0 <= value < n_steps:
            expected = f"a whole number from 0 to {n_steps - 1}"
            raise InvalidDataError(expected, episode=episode, field=name, value=value)
        numbers[name] = value
    if not numbers["earliest"] <= numbers["recommended"] <= numbers["latest"]:
        raise InvalidDataError("earliest <= recommended <= latest", episode=episode, field="the range", value=numbers)
    return Mark(numbers["earliest"], numbers["latest"], numbers["recommended"])


def _first_object(answer: str) -> Mapping[str, Any] | None:
    decoder = json.JSONDecoder()
    at = answer.find("{")
    while at >= 0:
        try:
            content, _ = decoder.raw_decode(answer, at)
        except (ValueError, RecursionError):
            at = answer.find("{", at + 1)
        else:
            return content if isinstance(content, dict) else None
    return None
