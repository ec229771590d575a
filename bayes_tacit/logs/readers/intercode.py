"""InterCode's results: one JSON object, a record for each task with its turns of action, observation and reward."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.documents import Document
from bayes_tacit.logs.readers.base import Found, required, turn

NAME = "intercode"
PATTERN = "*.json"


def recognizes(content: object) -> bool:
    """Tell it by the turns of its first record."""
    records = _records(content)
    first = next(iter(records.values()), None) if isinstance(records, dict) else None
    return isinstance(first, dict) and "turn_history" in first


def rollouts(document: Document) -> Iterator[Found]:
    """Give a rollout for each record: the score is the highest reward.

    Each action is the call of one tool, the environment; one that it did not take for valid is an error. `hardness`,
    which comes from the reference solution, is not read: an agent that is running does not know it.
    """
    records = _records(document.content)
    if not isinstance(records, dict) or not records:
        raise InvalidDataError("an object of at least one record", field="results", value=records)
    for key, record in records.items():
        yield f"task {key!r}", _rollout(key, record)


def _records(content: object) -> object:
    """Give the records, which some programs of InterCode write beside their settings."""
    return content["logs"] if isinstance(content, dict) and {"meta", "logs"} <= content.keys() else content


def _rollout(key: str, record: Mapping[str, Any]) -> Mapping[str, Any]:
    try:
        query = required(record, "query", str, "the task as a text")
        history = required(record, "turn_history", dict, "actions and observations")
        summary = required(record, "summary", dict, "an object with max_reward")
        actions = required(history, "actions", list, "a list of texts")
        observations = required(history, "observations", list, "a list of texts")
        if len(actions) != len(observations):
            raise InvalidDataError(
                f"{len(actions)}, one for each action", field="observations", value=len(observations)
            )
        valid = history.get("valid_action") if isinstance(history.get("valid_action"), list) else []
        messages: list[dict[str, Any]] = [{"role": "user", "content": query}]
        for number, (action, observation) in enumerate(zip(actions, observations, strict=True)):
            if not isinstance(action, str | None):
                raise InvalidDataError("a text", field=f"action {number}", value=action)
            answer = observation if isinstance(observation, str | None) else str(observation)
            made = turn("", action, answer, number)
            if len(made) > 1 and number < len(valid) and valid[number] is False:
                made[1]["is_error"] = True
            messages += made
    except InvalidDataError as error:
        raise InvalidDataError(error.expected, episode=key, field=error.field, value=error.value) from None
    return {
        "task": record.get("task_id", key),
        "score": summary.get("max_reward"),
        "messages": messages,
    }
