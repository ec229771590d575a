"""The gateway beside a bare pass-through and LiteLLM's proxy; workers and hosts that are killed; stores that fail.

`make bench-gateway` runs it alone, and installs LiteLLM's proxy in a place of its own; without that, its row says so.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import httpx
from rich.console import Console
from rich.table import Table

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "gateway"))

from command_line import PROGRAM  # noqa: E402
from processes import free_port, kill, serving, workers_of  # noqa: E402
from stores import redis_server  # noqa: E402
from talks import TASK, TOOLS, counting, tacit, turn  # noqa: E402

from bayes_tacit.gateway import (  # noqa: E402
    Engine,
    Identity,
    SessionLog,
    Sessions,
    StoreDownError,
    open_store,
)

LITELLM = Path(sys.executable).parent.parent / "litellm" / "bin" / "litellm"
"""Where `make .venv/litellm.installed` puts it: its packages would not go with ours."""

WORDS = "It has three columns, of which the second is a date and the third a number that may be missing. "


def tables() -> Iterator[Table]:
    """All tables, one after the other."""
    yield throughput()
    yield latency()
    yield kills()
    yield faults()


def conversation(turns: int, bad_from: int = 10**9) -> list[dict[str, object]]:
    """A conversation of so many turns whose answers are some hundred letters long."""
    messages: list[dict[str, object]] = list(TASK)
    for number in range(turns):
        said = turn(number, bad=number >= bad_from)
        said[0]["content"] = WORDS[:120]
        said[1]["content"] = f"{said[1]['content']} {WORDS * 6}"
        messages += said
    return messages


@contextmanager
def program(*words: str, port: int, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends, from when it listens on."""
    process = subprocess.Popen(
        words, cwd=HERE.parent, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(1200):
            try:
                httpx.get(f"http://127.0.0.1:{port}/health/liveliness", timeout=5)
                break
            except httpx.RemoteProtocolError:
                break
            except httpx.TransportError:
                time.sleep(0.1)
        yield process
    finally:
        process.terminate()
        process.wait()


@contextmanager
def models(seconds: float = 0.0) -> Iterator[tuple[str, str]]:
    """Two models' servers, which answer after so many seconds."""
    with ExitStack() as stack:
        ports = [free_port(), free_port()]
        for port in ports:
            words = (sys.executable, "-m", "benchmarks.gateway_peers", "model", str(port), str(seconds))
            stack.enter_context(program(*words, port=port))
        yield f"http://127.0.0.1:{ports[0]}/v1", f"http://127.0.0.1:{ports[1]}/v1"


LOADS = {"2 KB": (2, 700), "40 KB, 20 turns": (20, 1900), "400 KB, 200 turns": (200, 1900)}
"""Turns of a conversation, and letters of each."""

SESSIONS = {"2 KB": 100, "40 KB, 20 turns": 20, "400 KB, 200 turns": 8}
"""Sessions of each client in one round."""

AT_ONCE = 8
GROWING = 10
"""Requests of one session, each a turn longer than the one before."""


def bodies(load: str) -> list[bytes]:
    """The requests of one session, as a client sends them."""
    turns, letters = LOADS[load]
    messages: list[dict[str, object]] = list(TASK)
    found = []
    for number in range(turns):
        if number >= turns - GROWING:
            found.append(json.dumps({"model": "m", "messages": messages, "tools": TOOLS}).encode())
        said = turn(number)
        said[1]["content"] = f"{said[1]['content']} {(WORDS * 30)[: letters - 200]}"
        messages += said
    found.append(json.dumps({"model": "m", "messages": messages, "tools": TOOLS}).encode())
    return found


def throughput(rounds: int = 5) -> Table:
    """Requests a second of eight clients, as a share of what a bare pass-through serves in the same rounds.

    Each session has sent its first request before, as it would have sent all before that; what is measured are requests
    that each show one turn more.

    A process that is always busy serves one over the seconds of processor that a request takes; these are what is
    measured, so that whatever else runs on the machine does not count.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        direct, _ = stack.enter_context(models())
        port = free_port()
        words = (sys.executable, "-m", "benchmarks.gateway_peers", "bare", str(port), direct)
        bare = stack.enter_context(program(*words, port=port))
        places = {"bare": (f"http://127.0.0.1:{port}/v1", bare.pid)}
        redis = stack.enter_context(redis_server(folder)).url
        for name, state in (("log and file", str(folder / "sessions.sqlite")), ("log and Redis", redis)):
            inside = folder / name.replace(" ", "")
            inside.mkdir()
            options = ("--state", state, "--log", str(inside / "log.jsonl"))
            process, url = stack.enter_context(serving(tacit(), direct, direct, inside, *options, workers=1))
            places[name] = f"{url}/v1", process.pid
        table = Table("load", *places, "ratio, file", "ratio, Redis", title="requests per second of processor")
        for load in LOADS:
            rates: dict[str, list[float]] = {name: [] for name in places}
            for number in range(rounds):
                for name, (url, pid) in places.items():
                    first, *more = bodies(load)
                    asyncio.run(_load_once(url, [first], SESSIONS[load], f"{number}"))
                    before = _processor(pid)
                    done = asyncio.run(_load_once(url, more, SESSIONS[load], f"{number}"))
                    rates[name].append(done / (_processor(pid) - before))
            median = {name: statistics.median(one) for name, one in rates.items()}
            ratios = [f"{median[name] / median['bare']:.2f}" for name in list(places)[1:]]
            table.add_row(load, *(f"{one:,.0f}" for one in median.values()), *ratios)
    return table


def _processor(pid: int) -> float:
    """Seconds of processor that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _load_once(url: str, requests: list[bytes], sessions: int, run: str) -> int:
    done = 0

    async def client(number: int, session: aiohttp.ClientSession) -> None:
        nonlocal done
        for place in range(sessions):
            headers = {"x-session-id": f"{run}-{number}-{place}", "content-type": "application/json"}
            for raw in requests:
                async with session.post(f"{url}/chat/completions", data=raw, headers=headers) as answer:
                    await answer.read()
                    if answer.status != 200:
                        raise RuntimeError(f"{url} answered {answer.status}")
                done += 1

    async with aiohttp.ClientSession() as session:
        await asyncio.gather(*(client(number, session) for number in range(AT_ONCE)))
    return done


def latency(rounds: int = 300) -> Table:
    """What each adds to a call of a server that answers at once; in turn, so that all meet the same machine."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        direct, _ = stack.enter_context(models())
        port = free_port()
        words = (sys.executable, "-m", "benchmarks.gateway_peers", "bare", str(port), direct)
        stack.enter_context(program(*words, port=port))
        places = {"the server itself": direct, "bare starlette + aiohttp": f"http://127.0.0.1:{port}/v1"}
        for name, more in (("gateway", ()), ("gateway, --log and --state", ("log", "state"))):
            inside = folder / name.replace(" ", "")
            inside.mkdir()
            options = [word for one in more for word in (f"--{one}", str(inside / one))]
            _, url = stack.enter_context(serving(tacit(), direct, direct, inside, *options, workers=1))
            places[name] = f"{url}/v1"
        if LITELLM.exists():
            places["LiteLLM's proxy"] = stack.enter_context(litellm(folder, direct))
        table = Table("20 messages, one request at a time", "median", "added", "times bare", title="added latency")
        for stream in (False, True):
            found = asyncio.run(_measured(places, rounds, stream=stream))
            base = found["the server itself"]
            bare = found["bare starlette + aiohttp"] - base
            for name, median in found.items():
                added = median - base
                ratio = "" if added == 0 else f"{added / bare:.2f}"
                table.add_row(f"{name}{', streaming' if stream else ''}", _ms(median), _ms(added), ratio)
        if not LITELLM.exists():
            table.add_row("LiteLLM's proxy", "not installed", "", "")
    return table


@contextmanager
def litellm(folder: Path, url: str) -> Iterator[str]:
    """Run LiteLLM's proxy before the server."""
    port = free_port()
    model = {"model_name": "m", "litellm_params": {"model": "openai/m", "api_base": url, "api_key": "k"}}
    (folder / "litellm.yaml").write_text(json.dumps({"model_list": [model]}), encoding="utf-8")
    words = (str(LITELLM), "--config", str(folder / "litellm.yaml"), "--port", str(port), "--host", "127.0.0.1")
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR", "LITELLM_TELEMETRY": "False"}
    # It checks no key then, as the others here do not.
    quiet["LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY"] = "true"
    with program(*words, port=port, **quiet):
        yield f"http://127.0.0.1:{port}/v1"


async def _measured(places: dict[str, str], rounds: int, *, stream: bool) -> dict[str, float]:
    body = {"model": "m", "messages": conversation(9), "tools": TOOLS, "stream": stream}
    raw = json.dumps(body).encode()
    found: dict[str, list[float]] = {name: [] for name in places}
    async with aiohttp.ClientSession() as client:
        for number in range(rounds + 20):
            for name, url in places.items():
                headers = {
                    "x-session-id": f"{number % 50}",
                    "content-type": "application/json",
                    "authorization": "Bearer k",
                }
                start = time.perf_counter()
                async with client.post(f"{url}/chat/completions", data=raw, headers=headers) as answer:
                    content = await answer.read()
                seconds = time.perf_counter() - start
                if answer.status != 200 or b"sql" not in content:
                    raise RuntimeError(f"{name} answered {answer.status}: {content[:200]!r}")
                if number >= 20:
                    found[name].append(seconds)
    return {name: statistics.median(one) for name, one in found.items()}


def kills(requests: int = 10_000, sessions: int = 40, seed: int = 2026) -> Table:
    """One of two workers, or one of two hosts, is killed again and again while sessions go on."""
    names = ("killed", "kills", "requests", "asked again", "sessions handed off", "latches lost")
    table = Table(*names, "steps counted twice", "steps not logged", title="kill -9 at random while sessions go on")
    for what in ("a worker, SQLite file", "a host, Redis"):
        with tempfile.TemporaryDirectory() as name, models(0.005) as both, ExitStack() as stack:
            folder, rng = Path(name), random.Random(seed)
            if what.startswith("a worker"):
                options = ("--log", str(folder / "log.jsonl"), "--state", str(folder / "sessions.sqlite"))
                process, url = stack.enter_context(serving(counting(3), *both, folder, *options))
                urls, kill_one = [url], partial(_kill_worker, process, rng)
            else:
                redis = stack.enter_context(redis_server(folder)).url
                hosts = [Host(folder, number, both, redis) for number in (0, 1)]
                for host in hosts:
                    stack.callback(host.kill)
                urls, kill_one = [host.url for host in hosts], partial(_kill_host, hosts, rng)
            found = asyncio.run(_killed(urls, kill_one, requests, sessions, rng))
            logged = [
                (line["episode"], step["step"])
                for log in folder.glob("log*.jsonl")
                for line in map(json.loads, log.read_text().splitlines())
                if line["event"] == "step"
                for step in line["steps"]
            ]
        seen = set(logged)
        twice = found["wrong step"] + len(logged) - len(seen)
        missing = sum((name, step) not in seen for name, steps in found["steps"].items() for step in range(steps))
        counts = [found[one] for one in ("kills", "requests", "again", "handed", "lost")]
        table.add_row(what, *(f"{one:,}" for one in (*counts, twice, missing)))
    return table


class Host:
    """A gateway that is killed and started again on its port."""

    def __init__(self, folder: Path, number: int, models: tuple[str, str], redis: str) -> None:
        counting(3).save(folder / "router.json")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        words = ("serve", str(folder / "router.json"), "--port", str(self.port), "--cheap", models[0])
        log = str(folder / f"log{number}.jsonl")
        self._words = [PROGRAM, *words, "--strong", models[1], "--log", log, "--state", redis]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            try:
                httpx.get(f"{self.url}/health", timeout=2)
                return
            except httpx.TransportError:
                time.sleep(0.05)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


def _kill_worker(process: subprocess.Popen[bytes], rng: random.Random) -> None:
    while len(workers := workers_of(process)) < 2:
        time.sleep(0.05)
    kill(rng.choice(workers))


def _kill_host(hosts: list[Host], rng: random.Random) -> None:
    host = rng.choice(hosts)
    host.kill()
    host.start()


async def _killed(
    urls: list[str], kill_one: Callable[[], None], requests: int, sessions: int, rng: random.Random
) -> dict[str, Any]:
    found = {"requests": 0, "again": 0, "lost": 0, "wrong step": 0, "handed": 0, "kills": 0, "steps": {}}

    async def run(client: aiohttp.ClientSession, number: int) -> None:
        generation = 0
        while found["requests"] < requests:
            name, latched, generation = f"s{number}-{generation}", False, generation + 1
            for step in range(12):
                told = await ask(client, name, step)
                found["requests"] += 1
                found["steps"][name] = step
                found["wrong step"] += told["x-tacit-step"] != str(step)
                strong = told["x-tacit-served"] == "strong"
                found["lost"] += latched and not strong
                found["handed"] += strong and not latched
                latched = latched or strong

    async def ask(client: aiohttp.ClientSession, name: str, step: int) -> Mapping[str, str]:
        body = {"model": "m", "messages": conversation(step, 0), "tools": TOOLS, "stream": bool(step % 2)}
        while True:
            url = rng.choice(urls)
            try:
                async with client.post(
                    f"{url}/v1/chat/completions", json=body, headers={"x-session-id": name}
                ) as answer:
                    await answer.read()
                    if answer.status == 200:
                        return answer.headers
            except aiohttp.ClientError:
                pass
            found["again"] += 1
            await asyncio.sleep(0.05)

    async def killing() -> None:
        while found["requests"] < requests:
            # Between two kills both serve again, and some requests are answered.
            seen = found["requests"]
            while found["requests"] < min(seen + 20 * sessions, requests):
                await asyncio.sleep(0.01)
            await asyncio.to_thread(kill_one)
            found["kills"] += 1

    # Each request comes on a connection of its own, so that both serve.
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0, force_close=True)) as client:
        await asyncio.gather(killing(), *(run(client, number) for number in range(sessions)))
    return found


def faults(requests: int = 10_000, sessions: int = 100) -> Table:
    """Stores that are killed or locked and a disk that is full, again and again, while sessions go on."""
    table = Table("fault", "requests", "asked again", "latches lost", "steps double counted", title="faults of stores")
    with tempfile.TemporaryDirectory() as folder, redis_server(Path(folder)) as redis:
        place = Path(folder, "sessions.sqlite")
        lock = sqlite3.connect(place, isolation_level=None, check_same_thread=False)

        def locked() -> None:
            lock.execute("BEGIN EXCLUSIVE")
            threading.Timer(0.2, lock.execute, ["ROLLBACK"]).start()

        def restarted() -> None:
            redis.kill()
            redis.start()

        for name, state, log, break_it in (
            ("Redis killed and started with its file", redis.url, "log.jsonl", restarted),
            ("SQLite file locked", str(place), "log.jsonl", locked),
            ("disk of the log full", None, "/dev/full", lambda: None),
        ):
            store = open_store(state, patience=0.05)
            served = Sessions(Engine(counting(3)), store, SessionLog(Path(folder, log)))
            done = again = lost = twice = 0
            while done < requests:
                number, step = done % sessions, done // sessions
                if done % 500 == 250:
                    break_it()
                name_of = Identity("k", f"{number}-{step // 20}", "x")
                while True:
                    try:
                        ruling = served.begin(name_of, conversation(step % 20, 0), TOOLS).ruling
                        break
                    except StoreDownError:
                        again += 1
                        time.sleep(0.01)
                lost += step % 20 > 3 and ruling.side != "strong"
                twice += ruling.step != step % 20
                done += 1
            store.close()
            table.add_row(name, f"{done:,}", str(again), str(lost), str(twice))
    return table


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.2f} ms"


if __name__ == "__main__":
    console = Console(width=140)
    for part in tables():
        console.print(part)
