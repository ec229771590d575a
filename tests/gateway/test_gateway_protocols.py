"""Three protocols, one conversation: handed over, stripped, counted and continued alike, whole and streamed."""

import json

import pytest
from between import gateway
from talks import counting
from test_gateway_server import KEY, lines

from bayes_tacit.gateway import Engine, SessionState, forwarded
from bayes_tacit.gateway.protocols import CHAT, MESSAGES, PROTOCOLS, RESPONSES

ERROR = "Error: no such table"
SCHEMA = {"type": "object", "properties": {"query": {"type": "string"}}}
TOOLS = {
    "chat": [{"type": "function", "function": {"name": "sql", "parameters": SCHEMA}}],
    "responses": [{"type": "function", "name": "sql", "parameters": SCHEMA}],
    "messages": [{"name": "sql", "input_schema": SCHEMA}],
}


class Client:
    """An agent that speaks one protocol: it asks, runs what it is told to, which fails, and asks again."""

    def __init__(self, served, name, *, stream, session="s"):
        self.served, self.protocol, self.stream = served, PROTOCOLS[name], stream
        self.headers = {**KEY, **({} if session is None else {"x-session-id": session})}
        task = "How many rows has t?"
        self.said = [{"role": "user", "content": task}]
        self.told = []

    def body(self, **more):
        field = "input" if self.protocol is RESPONSES else "messages"
        return {"model": "m", field: self.said, "tools": TOOLS[self.protocol.name], "stream": self.stream, **more}

    def ask(self, **more):
        answer = self.served.client.post(self.protocol.path, json=self.body(**more), headers=self.headers)
        assert answer.status_code == 200, answer.text
        self.told.append(answer.headers)
        return answer

    def whole(self, answer):
        if not self.stream:
            return answer.json()
        found = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: {")]
        if self.protocol is RESPONSES:
            return found[-1]["response"]
        if self.protocol is MESSAGES:
            return anthropic(found)
        return chat(found)

    def step(self, **more):
        """Make a turn, and answer its call with an error; give what was new."""
        whole = self.whole(self.ask(**more))
        if self.protocol is RESPONSES:
            call = whole["output"][-1]["call_id"]
            new = [*whole["output"], {"type": "function_call_output", "call_id": call, "output": ERROR}]
        elif self.protocol is MESSAGES:
            call = whole["content"][-1]["id"]
            answer = {"type": "tool_result", "tool_use_id": call, "content": ERROR, "is_error": True}
            new = [{"role": "assistant", "content": whole["content"]}, {"role": "user", "content": [answer]}]
        else:
            message = whole["choices"][0]["message"]
            call = message["tool_calls"][0]["id"]
            new = [message, {"role": "tool", "tool_call_id": call, "content": ERROR}]
        self.said = [*self.said, *new]
        return whole, new

    @property
    def sides(self):
        return [one["x-tacit-served"] for one in self.told]


def anthropic(found):
    blocks = [one["content_block"] for one in found if one["type"] == "content_block_start"]
    for one in found:
        if one["type"] == "content_block_delta":
            block, delta = blocks[one["index"]], one["delta"]
            if "partial_json" in delta:
                block["partial"] = block.get("partial", "") + delta["partial_json"]
            else:
                block[block["type"]] += delta[block["type"]]
    for block in blocks:
        if "partial" in block:
            block["input"] = json.loads(block.pop("partial"))
    return {"content": blocks}


def chat(found):
    call = {"type": "function", "function": {"name": "", "arguments": ""}}
    for chunk in found:
        for piece in chunk["choices"][0]["delta"].get("tool_calls", ()):
            call["id"] = piece.get("id", call.get("id"))
            for key in ("name", "arguments"):
                call["function"][key] += piece["function"].get(key, "")
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [call]}}]}


@pytest.fixture
def served(tmp_path):
    with gateway(counting(2), tmp_path) as one:
        yield one


@pytest.fixture(params=list(PROTOCOLS))
def name(request):
    return request.param


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("session", ["named", None])
def test_a_session_is_handed_over_in_mid_task_in_each_protocol(served, name, stream, session):
    client = Client(served, name, stream=stream, session=session)
    for _ in range(5):
        client.step()
    assert client.sides == ["cheap", "cheap", "strong", "strong", "strong"]
    assert len({one["x-tacit-session"] for one in client.told}) == 1
    assert [one["x-tacit-step"] for one in client.told] == ["0", "1", "2", "3", "4"]
    replies = [one for one in lines(served) if one["event"] == "reply"]
    assert [one["finish_reason"] for one in replies] == ["tool_calls"] * 5
    if name != "chat" or not stream:
        assert all(one["usage"]["completion"] == 7 and not one["usage"]["estimated"] for one in replies)
    if name != "chat":
        assert {(one["usage"]["prompt"], one["usage"]["cached"]) for one in replies} == {(40, 8)}


@pytest.mark.parametrize("stream", [False, True])
def test_strong_reads_no_thought_of_cheap_and_all_of_its_own(served, name, stream):
    client = Client(served, name, stream=stream)
    for _ in range(4):
        client.step()
    field = "input" if name == "responses" else "messages"
    first, second = (json.dumps(one["body"][field]) for one in served.strong.requests[:2])
    mark = {"responses": "rs_{}", "messages": "{} thinks", "chat": "none"}[name]
    assert mark.format("cheap") not in first + second
    if name != "chat":
        assert mark.format("cheap") in json.dumps(served.cheap.requests[1]["body"])
        assert mark.format("strong") in second
    assert first.count(ERROR) == 2


def test_what_cheap_gets_are_the_very_bytes_that_came(served, name):
    client = Client(served, name, stream=False)
    client.step()
    raw = json.dumps(client.body(), indent=1).encode()
    served.client.post(client.protocol.path, content=raw, headers=client.headers)
    assert served.cheap.requests[-1]["raw"] == raw


def test_errors_are_those_of_the_protocol(tmp_path, name):
    speaks = tuple(one for one in PROTOCOLS if one != name)
    with gateway(counting(2), tmp_path, cheap={"speaks": speaks}) as served:
        client = Client(served, name, stream=False)
        refused = served.client.post(client.protocol.path, json=client.body(), headers=client.headers)
        assert refused.status_code == 400
        error = refused.json()["error"]
        assert f"not {name}" in error["message"]
        assert "LiteLLM" in error["message"]
        assert (refused.json().get("type") == "error") is (name == "messages")
        assert served.cheap.requests == []


def test_a_restart_leaves_the_task_alone(tmp_path, name):
    with gateway(counting(2), tmp_path, handoff="restart") as served:
        client = Client(served, name, stream=False)
        task = list(client.said)
        for _ in range(4):
            client.step()
        sent = [one["body"]["input" if name == "responses" else "messages"] for one in served.strong.requests]
        assert sent[0] == task
        assert ERROR in json.dumps(sent[1])
        assert "cheap_" not in json.dumps(sent[1])


# Answers that a server remembers.


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("session", ["named", None])
def test_a_conversation_goes_on_from_an_answer_that_it_names(served, stream, session):
    client = Client(served, "responses", stream=stream, session=session)
    task, more = client.said, {}
    for _ in range(5):
        whole, new = client.step(**more)
        more = {"previous_response_id": whole["id"]}
        client.said = [new[-1]]
    assert client.sides == ["cheap", "cheap", "strong", "strong", "strong"]
    assert len({one["x-tacit-session"] for one in client.told}) == 1
    last = served.strong.requests[-1]["body"]
    assert "previous_response_id" not in last
    assert last["input"][0] == task[0]
    assert [one["type"] for one in last["input"][1:]].count("function_call_output") == 4
    assert "rs_cheap" not in json.dumps(last)


def test_an_answer_is_known_to_its_key_alone_and_only_if_it_was_to_be_stored(served):
    client = Client(served, "responses", stream=False)
    whole = client.ask().json()
    kept = {"model": "m", "input": "say more", "previous_response_id": whole["id"]}
    other = served.client.post("/responses", json=kept, headers={"authorization": "Bearer other"})
    assert other.status_code == 404
    assert served.client.post("/responses", json=kept, headers=KEY).status_code == 200
    unkept = client.ask(store=False).json()
    kept["previous_response_id"] = unkept["id"]
    refused = served.client.post("/responses", json=kept, headers=KEY)
    assert refused.status_code == 404
    assert "the whole conversation" in refused.json()["error"]["message"]
    assert served.client.post("/responses", json={"input": "a", "conversation": "c"}, headers=KEY).status_code == 400


# Requests of programs, as they send them.

CLAUDE_CODE = {
    "model": "claude-sonnet-4-5",
    "max_tokens": 32000,
    "stream": False,
    "metadata": {"user_id": "user_0123_account__session_11111111-2222-3333-4444-555555555555"},
    "system": [
        {"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}},
        {"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}},
    ],
    "tools": [{"name": "Bash", "description": "Run", "input_schema": SCHEMA}],
    "thinking": {"type": "enabled", "budget_tokens": 31999},
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "<system-reminder>Today is Monday.</system-reminder>"},
                {"type": "text", "text": "Fix it.", "cache_control": {"type": "ephemeral"}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
                {"type": "text", "text": "Let me look."},
                {"type": "tool_use", "id": "toolu_01A", "name": "Bash", "input": {"command": "ls"}},
                {"type": "tool_use", "id": "toolu_01B", "name": "Bash", "input": {"command": "pwd"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_01A", "content": "ls: no such file", "is_error": True},
                {"type": "tool_result", "tool_use_id": "toolu_01B", "content": [{"type": "text", "text": "/"}]},
                {"type": "text", "text": "<system-reminder>Be careful.</system-reminder>"},
            ],
        },
    ],
}

CODEX = {
    "model": "gpt-5-codex",
    "instructions": "You are Codex.",
    "stream": False,
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "0199-aaaa",
    "parallel_tool_calls": False,
    "tools": [
        {"type": "function", "name": "shell", "strict": False, "parameters": SCHEMA},
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}},
        {"type": "web_search"},
    ],
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
        {"type": "reasoning", "summary": [], "content": None, "encrypted_content": "gAAAA"},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "call_shell_0001"},
        {
            "type": "function_call_output",
            "call_id": "call_shell_0001",
            "output": '{"output": "ls: no such file or directory", "metadata": {"exit_code": 2}}',
        },
        {"type": "custom_tool_call", "call_id": "call_patch_001", "name": "apply_patch", "input": "*** Begin Patch"},
        {"type": "custom_tool_call_output", "call_id": "call_patch_001", "output": "Error: no such file"},
    ],
}


@pytest.mark.parametrize(
    ("protocol", "body", "tools", "errors"), [(MESSAGES, CLAUDE_CODE, 1, [1]), (RESPONSES, CODEX, 2, [1, 1])]
)
def test_what_programs_send_is_read_and_sent_on(tmp_path, protocol, body, tools, errors):
    messages = protocol.read(body)
    kept = SessionState()
    ruling = Engine(counting(9)).consider(kept, messages, body["tools"])
    assert (ruling.skipped, ruling.fault, ruling.step) == (0, None, len(errors))
    assert [kept.flags[step] >> 2 & 1 for step in range(kept.n_steps)] == errors
    assert kept.features["n_tools"] == tools
    sent = protocol.write(forwarded(messages, ruling, "strong"), messages)
    for thought in ("Hm.", "EqQB", "gAAAA"):
        assert thought not in json.dumps(sent)
    with gateway(counting(1), tmp_path) as served:
        answer = served.client.post(f"{protocol.path}?beta=true", json=body, headers=KEY)
        assert answer.headers["x-tacit-served"] == "strong"
        request = served.strong.requests[-1]
        assert request["query"] == "beta=true"
        changed = {"input", "messages"}
        assert {k: v for k, v in request["body"].items() if k not in changed} == {
            k: v for k, v in body.items() if k not in changed
        }


def test_a_turn_of_claude_codes_keeps_its_blocks_and_their_order():
    messages = MESSAGES.read(CLAUDE_CODE)
    ruling = Engine(counting(1)).consider(SessionState(), messages)
    sent = MESSAGES.write(forwarded(messages, ruling), messages)["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user"]
    assert sent[0] == CLAUDE_CODE["messages"][0]
    assert sent[1]["content"] == CLAUDE_CODE["messages"][1]["content"][1:]
    assert sent[2] == CLAUDE_CODE["messages"][2]


def test_the_three_readers_give_the_same_steps(served):
    kept = {}
    for one in PROTOCOLS:
        client = Client(served, one, stream=False, session=one)
        for _ in range(3):
            client.step()
        kept[one] = SessionState()
        Engine(counting(9)).consider(kept[one], client.protocol.read(client.body()), TOOLS[one])
    assert {bytes(one.flags) for one in kept.values()} == {bytes(kept["chat"].flags)}
    assert kept["chat"].n_steps == 3
    assert CHAT.read({"messages": []}) is None
