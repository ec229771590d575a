"""Stores: what two hosts do at once is done once each, and a handoff stays, whatever is killed."""

import asyncio
import threading

import aiohttp
import pytest
from fake_models import FakeModel, running
from processes import serving
from stores import KINDS
from talks import TOOLS, counting, talk

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.gateway import Engine, Identity, Reply, Sessions, SessionState, StoreDownError, open_store
from bayes_tacit.gateway.store import FileStore, MemoryStore, RedisStore

SHARED = ("file", "redis", "postgres")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.fixture
def store(kind, places, tmp_path):
    made = open_store(places.fresh(kind, tmp_path))
    yield made
    made.close()


def test_only_who_read_the_latest_writes(store):
    assert store.get("k", "s") is None
    assert store.put("k", "s", SessionState(handoff_step=1), 0)
    assert not store.put("k", "s", SessionState(), 0)
    version, kept = store.get("k", "s")
    assert (version, kept.handoff_step) == (1, 1)
    assert store.put("k", "s", SessionState(handoff_step=2), version)
    assert not store.put("k", "s", SessionState(), version)
    assert store.get("k", "s")[1].handoff_step == 2
    assert store.get("other", "s") is None
    assert store.count() == 1


def test_marks_are_claimed_once_in_their_order(store):
    for session in ("a", "b", "c"):
        store.offer("k", "mark", session)
    assert store.claim("k", "mark", take=False) == "c"
    assert [store.claim("k", "mark", take=True) for _ in range(4)] == ["a", "b", "c", None]
    assert store.claim("other", "mark", take=False) is None


def test_each_key_keeps_its_latest_sessions(kind, places, tmp_path, monkeypatch):
    monkeypatch.setattr("bayes_tacit.gateway.store.BETWEEN", 2)
    store = open_store(places.fresh(kind, tmp_path), most=5)
    store.put("quiet", "s", SessionState(handoff_step=0), 0)
    for number in range(20):
        store.put("loud", f"{number}", SessionState(), 0)
    assert store.get("quiet", "s")[1].latched
    assert 6 <= store.count() <= 8
    assert store.get("loud", "0") is None
    assert store.get("loud", "19") is not None
    store.close()


@pytest.mark.parametrize("made", [MemoryStore, FileStore, RedisStore])
def test_who_was_idle_too_long_is_forgotten(made, places, tmp_path):
    now = [1000.0]
    kind = KINDS[[MemoryStore, FileStore, RedisStore].index(made)]
    place = places.fresh(kind, tmp_path)
    first = {MemoryStore: (), FileStore: (tmp_path / "s.sqlite",), RedisStore: (place,)}[made]
    store = made(*first, idle=10.0, clock=lambda: now[0])
    store.put("", "old", SessionState(handoff_step=1), 0)
    now[0] += 9
    assert store.get("", "old")[1].latched
    now[0] += 2
    assert store.put("", "new", SessionState(), 0)
    if made is not RedisStore:  # whose own clock counts
        assert store.get("", "old") is None
        assert store.put("", "old", SessionState(), 0)
    store.close()


@pytest.mark.parametrize("kind", SHARED)
def test_what_two_hosts_change_at_once_is_all_kept(kind, places, tmp_path):
    place = places.fresh(kind, tmp_path)
    hosts = [Sessions(Engine(counting(3)), open_store(place, patience=20.0)) for _ in range(2)]
    who, failed = Identity("k", "s", "mine"), []

    def serve(host, turns):
        try:
            ticket = host.begin(who, talk("!" * turns), TOOLS)
            host.replied(ticket, ticket.ruling.side, Reply())
        except StoreDownError as error:
            failed.append(error)

    threads = [threading.Thread(target=serve, args=(hosts[n % 2], n // 2)) for n in range(16)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert failed == []
    known = hosts[0].look("k", "s")
    assert (known["steps"], known["latched"], sum(known["calls"].values())) == (7, True, 16)
    for host in hosts:
        assert host.begin(who, talk("."), TOOLS).ruling.side == "strong"
        host.store.close()


@pytest.mark.parametrize("kind", SHARED)
def test_a_handoff_at_one_host_is_one_at_the_other_and_a_restart_cuts_only_what_was_before(kind, places, tmp_path):
    place = places.fresh(kind, tmp_path)
    one, other = (Sessions(Engine(counting(2), handoff="restart"), open_store(place)) for _ in range(2))
    who = Identity("k", "s", "mine")
    for turns in range(3):
        ticket = one.begin(who, talk("!" * turns), TOOLS)
        one.replied(ticket, ticket.ruling.side, Reply())
    assert ticket.ruling.new_handoff
    for turns, host in (("!!.", other), ("!!..", one), ("!!...", other)):
        ruling = host.begin(who, talk(turns), TOOLS).ruling
        assert (ruling.side, ruling.restart, ruling.cut, ruling.new_handoff) == ("strong", True, 2, False)
    one.store.close()
    other.store.close()


def test_a_redis_that_was_killed_and_started_again_has_what_it_was_told(places, tmp_path):
    place = places.fresh("redis", tmp_path)
    sessions = Sessions(Engine(counting(1)), open_store(place))
    for number in range(50):
        assert sessions.begin(Identity("k", f"{number}", "mine"), talk("!"), TOOLS).ruling.new_handoff
    server = places.server("redis")
    server.kill()
    with pytest.raises(StoreDownError):
        sessions.begin(Identity("k", "0", "mine"), talk("!"), TOOLS)
    server.start()
    fresh = Sessions(Engine(counting(99)), open_store(place))
    assert {fresh.begin(Identity("k", f"{n}", "mine"), talk("."), TOOLS).ruling.side for n in range(50)} == {"strong"}


def test_a_store_that_lost_a_handoff_is_told_of_it_again(places, tmp_path):
    place = places.fresh("redis", tmp_path)
    sessions, who = Sessions(Engine(counting(1)), open_store(place)), Identity("k", "s", "mine")
    assert sessions.begin(who, talk("!"), TOOLS).ruling.new_handoff
    places.fresh("redis", tmp_path)  # all of it is gone
    assert sessions.begin(who, talk("!."), TOOLS).ruling.side == "strong"
    assert Sessions(Engine(counting(9)), open_store(place)).begin(who, talk(".")).ruling.side == "strong"


@pytest.mark.parametrize("place", ["mongodb://here", "redis://127.0.0.1:9/0", "postgresql://127.0.0.1:9/none"])
def test_a_store_that_is_none_is_refused(place):
    with pytest.raises((InvalidDataError, StoreDownError)) as found:
        open_store(place, patience=0.5)
    assert "here" not in str(found.value)


SESSIONS, STEPS, HANDOFF = 200, 6, 3


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["redis", "postgres"])
def test_two_gateways_of_which_one_is_killed_lose_no_latch_and_count_no_step_twice(kind, places, tmp_path):
    place = places.fresh(kind, tmp_path)
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
    options = ("--state", place, "--store-timeout", "20")
    router = counting(HANDOFF)
    with running(FakeModel("cheap"), FakeModel("strong")) as (cheap, strong):
        words = (cheap.url, strong.url)
        with (
            serving(router, *words, folders[0], *options, workers=1) as (victim, first),
            serving(router, *words, folders[1], *options, workers=1) as (_, second),
        ):
            sides = asyncio.run(round_robin([first, second], victim))
    assert sides == {n: ["cheap"] * HANDOFF + ["strong"] * (STEPS - HANDOFF) for n in range(SESSIONS)}
    store = open_store(place)
    kept = [store.get(scope_of_nobody(), f"s{n}")[1] for n in range(SESSIONS)]
    store.close()
    assert {one.n_steps for one in kept} == {STEPS - 1}
    assert {one.handoff_step for one in kept} == {HANDOFF - 1}


def scope_of_nobody():
    from bayes_tacit.gateway.sessions import scope_of

    return scope_of({})


async def round_robin(urls, victim):
    """Ask one gateway after the other; the one that was killed is asked no more."""
    sides, turn, alive = {n: [] for n in range(SESSIONS)}, iter(range(10**9)), list(urls)

    async def ask(client, session, step):
        body = {"messages": talk("!" * step), "tools": TOOLS}
        while True:
            url = alive[next(turn) % len(alive)]
            try:
                headers = {"x-session-id": f"s{session}"}
                async with client.post(f"{url}/v1/chat/completions", json=body, headers=headers) as answer:
                    await answer.read()
                    assert answer.status == 200
                    sides[session].append(answer.headers["x-tacit-served"])
                    return
            except aiohttp.ClientError:
                if url in alive and len(alive) > 1:
                    alive.remove(url)

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=16)) as client:
        for step in range(STEPS):
            asking = [asyncio.ensure_future(ask(client, n, step)) for n in range(SESSIONS)]
            if step == HANDOFF:
                while sum(one.done() for one in asking) < SESSIONS // 4:
                    await asyncio.sleep(0.005)
                victim.kill()
            await asyncio.gather(*asking)
    return sides
