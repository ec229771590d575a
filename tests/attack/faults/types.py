"""A value of the wrong type in every field of an answer."""

from __future__ import annotations

import copy
import json

from attack.faults.line import Fault, headed, sends

GOOD = {
    "id": "x",
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "right"},
            "logprobs": {"content": [{"token": "right", "logprob": -0.5, "top_logprobs": []}]},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "details": {"cached": 1}},
}
FIELDS = {
    "choices": ("choices",),
    "a choice": ("choices", 0),
    "message": ("choices", 0, "message"),
    "content": ("choices", 0, "message", "content"),
    "logprobs": ("choices", 0, "logprobs"),
    "their content": ("choices", 0, "logprobs", "content"),
    "one of them": ("choices", 0, "logprobs", "content", 0),
    "a token": ("choices", 0, "logprobs", "content", 0, "token"),
    "a logprob": ("choices", 0, "logprobs", "content", 0, "logprob"),
    "usage": ("usage",),
    "a count": ("usage", "prompt_tokens"),
    "id": ("id",),
}
VALUES = {
    "null": None,
    "true": True,
    "zero": 0,
    "a negative number": -1.5,
    "a text": "text",
    "an empty text": "",
    "a list": [1, None, "x"],
    "an empty list": [],
    "an object": {"a": {"b": 1}},
    "an empty object": {},
    "half a letter": "\ud800",
}


def faults() -> dict[str, Fault]:
    found = {}
    for field, path in FIELDS.items():
        for name, value in VALUES.items():
            answer = copy.deepcopy(GOOD)
            place = answer
            for step in path[:-1]:
                place = place[step]
            place[path[-1]] = value
            found[f"{field} is {name}"] = sends(headed(json.dumps(answer).encode()), "either")
        missing = copy.deepcopy(GOOD)
        place = missing
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]
        found[f"{field} is missing"] = sends(headed(json.dumps(missing).encode()), "either")
    return found
