"""The real `openai` package as client: the same answers through the gateway as without it."""

import openai
import pytest
from between import gateway
from talks import TASK, TOOLS, counting, talk

from bayes_tacit.gateway.server.settings import Limits

SAY = [{"role": "user", "content": "say hello, wörld"}]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """A client of the model itself, and one of the gateway before it."""
    folder = tmp_path_factory.mktemp("openai")
    with gateway(counting(2), folder, limits=Limits(silence=30.0)) as served:
        clients = [openai.OpenAI(base_url=url, api_key="k", max_retries=0) for url in (served.direct.url, served.url)]
        yield clients
        for client in clients:
            client.close()


def both(pair, ask):
    """What a request gives, or how it fails, directly and through the gateway."""
    found = []
    for client in pair:
        try:
            found.append(ask(client))
        except openai.APIStatusError as error:
            found.append((type(error), error.status_code, error.body))
        except openai.APIConnectionError as error:
            found.append(type(error))
    return found


def completed(client, **more):
    answer = client.chat.completions.create(**{"model": "m", "messages": SAY, **more})
    content = answer.model_dump(exclude_none=True)
    for choice in content["choices"]:
        for call in choice["message"].get("tool_calls", ()):
            call.pop("id")  # numbered by request
    return content


def streamed(client, **more):
    chunks = client.chat.completions.create(**{"model": "m", "messages": SAY, "stream": True, **more})
    found = [chunk.model_dump(exclude_none=True) for chunk in chunks]
    for chunk in found:
        for choice in chunk["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                call.pop("id", None)
    return found


@pytest.mark.parametrize("ask", [completed, streamed])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"messages": TASK, "tools": TOOLS},
        {"messages": talk("..."), "tools": TOOLS, "tool_choice": "auto"},
        {"logprobs": True, "temperature": 0.5, "seed": 3, "extra_body": {"min_p": 0.1, "model_extra": {"model": "x"}}},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "parts"}]}]},
        {"extra_headers": {"x-session-id": "s-1", "x-tacit-task": "t"}},
        {"messages": [{"role": "user", "content": "say " + "x" * 200_000}]},
    ],
    ids=["text", "tools", "history", "settings", "parts", "headers", "long"],
)
def test_the_answer_is_the_same(pair, ask, more):
    direct, through = both(pair, lambda client: ask(client, **more))
    assert isinstance(direct, dict | list)
    assert through == direct


def test_tokens_at_the_end_of_a_stream_pass_too(pair):
    direct, through = both(pair, lambda client: streamed(client, stream_options={"include_usage": True}))
    assert direct[-1]["usage"]["completion_tokens"] == 7
    assert through == direct


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 429, 500, 503])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_is_the_same_error(pair, status, stream):
    messages = [{"role": "user", "content": f"status {status}"}]
    direct, through = both(pair, lambda client: completed(client, messages=messages, stream=stream))
    assert direct[1] == status
    assert through == direct


def test_a_time_out_is_the_same_time_out(pair):
    messages = [{"role": "user", "content": "stall"}]
    direct, through = both(pair, lambda client: completed(client, messages=messages, timeout=0.3))
    assert direct is through is openai.APITimeoutError


@pytest.mark.parametrize("ask", [completed, streamed])
def test_an_answer_that_breaks_off_is_no_answer_either_way(pair, ask):
    messages = [{"role": "user", "content": "break now"}]
    for client in pair:
        with pytest.raises(Exception, match=r"peer closed connection|Connection error"):
            ask(client, messages=messages)


def test_raw_headers_tell_the_decision(pair):
    raw = pair[1].chat.completions.with_raw_response.create(
        model="m", messages=talk("!!"), tools=TOOLS, extra_headers={"x-session-id": "raw"}
    )
    assert raw.headers["x-tacit-served"] == "strong"
    assert raw.parse().system_fingerprint == "strong"
