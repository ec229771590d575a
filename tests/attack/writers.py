"""What writes, stopped at random moments, or written where there is no room.

Each is run in a fork of this process, which has loaded the library, so that most of its time is its own work. Half of
the signals come at a moment drawn from the whole run, half while its temporary file is there, if it has one. After
each, what is at the output is nothing, the whole file of before or the whole new one; the next run gives what an
undisturbed one gives, byte for byte or number for number, and leaves nothing beside it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

import pandas as pd
import patient_world
from attack import cases
from attack.doors import FILES, serve
from attack.doors_logs import write_log
from attack.junk import dumps
from routers import random_router
from toy_world import threshold_router

from bayes_tacit import Episodes, load_posterior, save_posterior
from bayes_tacit.agents import Budget, Proposal, read_pairs, read_transcripts
from bayes_tacit.agents.playing import Players
from bayes_tacit.agents.playing import collect as play
from bayes_tacit.cli import main
from bayes_tacit.cli.route import answer
from bayes_tacit.errors import TacitWarning
from bayes_tacit.router import DecisionLog, replay
from simulations.dabench import DABench

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
UNFINISHED = (".partial", ".tmp", ".tmp.old", ".broken")
"""How names of files end that are not whole; a run that ends well leaves none in its folders either."""

PATIENCE = 120.0
"""Seconds for one run, on a machine with other work."""

BAD_INPUT = 2


@dataclass(frozen=True)
class Writer:
    """Something that writes one file or folder.

    `content` reads the output `out`, and raises if it is not whole; `words` are those of the command line, or `work` is
    run in the folder; the output of what `grows` may be a part of the whole one, as a log is; `beside` is what else it
    writes.
    """

    name: str
    out: str
    content: Callable[[Path], object]
    words: list[str] = field(default_factory=list)
    work: Callable[[], object] | None = None
    grows: bool = False
    beside: tuple[str, ...] = ()

    def run(self) -> object:
        """Do it, in the working folder."""
        if self.work is not None:
            return self.work()
        sys.argv = ["bayes-tacit", *self.words]
        return main()


def started(work: Callable[[], object], folder: Path, said: Path) -> int:
    """Run work in a fork, in a session of its own; return its number."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        os.setsid()
        # A shell starts what runs in the background deaf to it.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(folder)
        with said.open("ab", buffering=0) as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        sys.stdin = Path(os.devnull).open()  # noqa: SIM115  of this process, to its end
        work()
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    except KeyboardInterrupt:
        # A function of the library lets it through; the program says it in one line.
        code = 130
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def ended(number: int, seconds: float = PATIENCE) -> int | None:
    """Wait for a fork; return how it ended as a shell does, None if it did not."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        done, status = os.waitpid(number, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.killpg(number, signal.SIGKILL)
    os.waitpid(number, 0)
    return None


def attack(writer: Writer, base: Path, home: Path, rng: Random, n: int) -> tuple[int, list[str]]:
    """Stop a writer so many times; return how often that stopped it, and what was wrong."""
    stopped, wrong = 0, []
    folder, said = home / "work", home / "said"
    shutil.copytree(base, folder)
    inputs = {entry.name for entry in folder.iterdir()}
    began = time.monotonic()
    code = ended(started(writer.run, folder, said))
    length = time.monotonic() - began
    assert code in (0, 1), f"{writer.name}: {said.read_text()[-2000:]}"
    out = folder / writer.out
    usual = writer.content(out)
    for number in range(n):
        how = SIGNALS[number % 3]
        if number % 4 < 2 or writer.grows:
            shutil.rmtree(out, ignore_errors=True) if out.is_dir() else out.unlink(missing_ok=True)
        said.write_bytes(b"")
        fork = started(writer.run, folder, said)
        # What grows has no temporary file: any moment is one at which it writes.
        _wait(fork, folder, writer.out, rng, length, writing=number % 2 == 0 and not writer.grows)
        if _runs(fork):
            os.kill(fork, how)
        code, where = ended(fork), f"{writer.name}, {how.name} {number}"
        stopped += code not in (0, 1)
        if code is None:
            wrong.append(f"{where}: does not end")
        text = said.read_text(errors="replace")
        # A function of the library lets an interruption through; a command says it in one line.
        if "Traceback" in text and (writer.words or not text.rstrip(": \n").endswith("KeyboardInterrupt")):
            wrong.append(f"{where}: {text[-600:]}")
        try:
            if out.exists() and writer.content(out) != usual and not writer.grows:
                wrong.append(f"{where}: what is there is neither the old file nor the new one")
        except Exception as error:
            wrong.append(f"{where}: what is there cannot be read ({error!r})")
        if number % 2:
            continue
        # The next run: whatever was left is gone, and the result is the same.
        code = ended(started(writer.run, folder, said))
        if code not in (0, 1):
            wrong.append(f"{where}: the next run ends with {code}: {said.read_text()[-600:]}")
        elif writer.content(out) != usual:
            wrong.append(f"{where}: the next run gives something else")
        left = {entry.name for entry in folder.iterdir()} - inputs - {writer.out, *writer.beside}
        left |= {entry.name for entry in folder.rglob("*") if entry.name.endswith(UNFINISHED)}
        if left:
            wrong.append(f"{where}: after the next run there is {sorted(left)}")
    shutil.rmtree(folder)
    return stopped, wrong


def _runs(fork: int) -> bool:
    return not os.waitid(os.P_PID, fork, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def _wait(fork: int, folder: Path, out: str, rng: Random, length: float, *, writing: bool) -> None:
    """Wait for the moment of the signal."""
    until = time.monotonic() + (3 * length + 5 if writing else rng.uniform(0, length))
    while time.monotonic() < until and _runs(fork):
        if writing and any(entry.name.startswith(f".{out}.") for entry in folder.iterdir()):
            time.sleep(rng.choice([0, rng.uniform(0, 0.002), rng.uniform(0, 0.2 * length)]))
            return
        time.sleep(0.0002)


def limited(writer: Writer, base: Path, home: Path, size: int) -> list[str]:
    """Write files of at most so many bytes, and say what is wrong with how it ended; they may be enough."""
    folder, said, where = home / f"limited{size}", home / f"said{size}", f"{writer.name}, files of {size} bytes"
    folder.mkdir()
    for entry in base.iterdir():
        (folder / entry.name).symlink_to(entry)
    before = {entry.name for entry in folder.iterdir()}
    # What it says must not need the room that it has not.
    said.write_bytes(b"")

    def run() -> object:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return writer.run()

    code = ended(started(run, folder, said))
    left = {entry.name for entry in folder.iterdir()} - before
    lines = [line for line in said.read_text(errors="replace").splitlines() if not line.startswith("note: ")]
    if code == 0:
        whole = (folder / writer.out).exists() and writer.content(folder / writer.out) is not None
        well = whole and left <= {writer.out, *writer.beside}
        return [] if well else [f"{where}: ended well, and left {sorted(left)}"]
    wrong = []
    if code != BAD_INPUT or len(lines) != 1 or not lines[0].startswith("error: "):
        wrong.append(f"{where}: ended with {code} and said {lines[-4:]}")
    if left - {*writer.beside}:
        wrong.append(f"{where}: left {sorted(left)}")
    return wrong


ROUTER = random_router(draws=20)
STEPS = 4000
"""Decisions of the router whose log is cut off."""


def read_bytes(path: Path) -> object:
    """All of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read_episodes(path: Path) -> object:
    """Episodes by their digest."""
    return Episodes.read(path).fingerprint()


def read_draws(path: Path) -> object:
    """A posterior by the digest that its file carries, and by all numbers."""
    from bayes_tacit.scores.posterior_files import digest

    return digest(load_posterior(path))


def read_new_draws(path: Path) -> object:
    """A posterior by its draws: when it was sampled differs from run to run."""
    return load_posterior(path, finite=False)["posterior"].to_dataset().to_dataframe().to_csv()


def read_page(path: Path) -> object:
    """A page to its end; it says when it was written."""
    text = path.read_text(encoding="utf-8")
    assert text[:15].lower() == "<!doctype html>"
    assert text.rstrip().endswith("</html>")
    return text.count("<section")


def read_whole(path: Path) -> object:
    """A picture to its end."""
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert b"IEND" in content[-12:]
    return "a picture"


def read_table(path: Path) -> object:
    """A Parquet table."""
    return pd.read_parquet(path).to_csv()


def needed(home: Path) -> Path:
    """Write all that the writers read."""
    cases.written(home, "few.jsonl", "more.jsonl", "fit.json", "p.nc", "c.csv")
    for side in ("cheap", "strong"):
        write_log(home / f"{side}.jsonl")
    known = cases.episodes()
    due = [name for name, outcome in zip(known.ids, known.outcomes, strict=True) if outcome == "01"]
    (home / "m.csv").write_text("episode,window_start,window_end\n" + "".join(f"{name},0,1\n" for name in due))
    return home


def _saved_again(out: str) -> Callable[[], object]:
    def work() -> None:
        save_posterior(load_posterior("p.nc"), out)

    return work


def _routed() -> None:
    """Decide and log; a log that is there already is gone on with."""
    begun = len(Path("d.jsonl").read_bytes().splitlines()) if Path("d.jsonl").exists() else 0
    with DecisionLog("d.jsonl") as log:
        requests = io.BytesIO(
            b"".join(
                b'{"episode": %d, "features": [1, 0.5]}\n{"episode": %d, "diagnostics": [0.5, 0, 1]}\n' % (at, at)
                for at in range(begun, begun + STEPS)
            )
        )
        answer(ROUTER, io.BufferedReader(requests), Path(os.devnull).open("w"), log=log)  # noqa: SIM115


def read_log(path: Path) -> object:
    """A log that a router computes again; how long it is depends on when it was stopped."""
    with warnings.catch_warnings(action="ignore", category=TacitWarning):
        assert replay(path, ROUTER).agrees
    return "agrees"


def _played(workers: int) -> Callable[[], object]:
    def work() -> None:
        # A program of its own: workers are processes that begin as it does.
        script = f"import patient_world; patient_world.play('rollouts', {workers})"
        path = os.pathsep.join([str(Path(patient_world.__file__).parent), *filter(None, sys.path)])
        environment = {**os.environ, "PYTHONPATH": path}
        os.execve(sys.executable, [sys.executable, "-c", script], environment)

    return work


def read_rollouts(folder: Path) -> object:
    """What was done in every pair that is whole."""
    return {
        cheap.episode: [[step.proposal.action for step in each.steps] for each in (cheap, strong)]
        for cheap, strong in read_pairs(folder)
    }


WORKERS = ("import", "cheap.jsonl", "strong.jsonl", "--out", "w.jsonl", "--workers", "2", "--force")
EPISODES = {
    ("example", "o.{}", "--force"): "o.{}",
    ("import", "cheap.jsonl", "strong.jsonl", "--out", "i.{}", "--workers", "1", "--force"): "i.{}",
    ("teach", "few.jsonl", "--marks", "m.csv", "--out", "t.{}", "--force"): "t.{}",
}
SELECT = ("select", "fit.json", "few.jsonl", "--cap", "50", "--counterfactuals", "c.csv", "--out", "r.json", "--force")
RECOMMEND = ("recommend", "more.jsonl", "--cap", "50", "--step-budget", "40", "--out", "n.json", "--force")
SAMPLE = ("sample", "few.jsonl", "--out", "y.nc", "--draws", "30", "--tune", "30", "--chains", "1", "--force")
REPORT = ("report", "real.nc", "few.jsonl", "--out", "h.html", "--force")


def commands() -> list[Writer]:
    """Return the commands that write one file, one for each format."""
    found = [
        Writer(f"{words[0]} .{suffix}", out.format(suffix), read_episodes, [word.format(suffix) for word in words])
        for words, out in EPISODES.items()
        for suffix in ("jsonl", "parquet", "nc", "zarr")
    ]
    return [
        *found,
        Writer("import --workers 2", "w.jsonl", read_episodes, [*WORKERS]),
        Writer("fit", "f.json", read_bytes, ["fit", "more.jsonl", "--out", "f.json", "--ridge", "1", "--force"]),
        Writer("score .csv", "s.csv", read_bytes, ["score", "p.nc", "few.jsonl", "--out", "s.csv", "--force"]),
        Writer(
            "score .parquet", "s.parquet", read_table, ["score", "p.nc", "few.jsonl", "--out", "s.parquet", "--force"]
        ),
        Writer("select", "r.json", read_bytes, [*SELECT]),
        Writer("select --plot", "c.png", read_whole, [*SELECT, "--plot", "c.png"], beside=("r.json",)),
        Writer("recommend", "n.json", read_bytes, [*RECOMMEND]),
    ]


def slow_commands() -> list[Writer]:
    """Return those that load PyMC, or read what it has sampled."""
    return [Writer("sample", "y.nc", read_new_draws, [*SAMPLE]), Writer("report", "h.html", read_page, [*REPORT])]


def functions() -> list[Writer]:
    """Return what is written from Python, and what grows."""
    return [
        Writer("save_posterior .nc", "q.nc", read_draws, work=_saved_again("q.nc")),
        Writer("save_posterior .zarr", "q.zarr", read_draws, work=_saved_again("q.zarr")),
        Writer("route --log", "d.jsonl", read_log, work=_routed, grows=True),
        Writer("collect", "rollouts", read_rollouts, work=_played(1), grows=True),
        Writer("collect --workers 2", "rollouts", read_rollouts, work=_played(2), grows=True),
    ]


SEATS = ("--cheap", "kept", "--strong", "kept")
COMMON = ("--benchmark", "simulations.dabench:benchmark", "--data", "d", *SEATS, "--cost", "9b", "--actions", "4")


@dataclass(frozen=True)
class Saying:
    """Says the replies of a list."""

    name: str
    replies: tuple[str, ...]

    def act(self, history) -> Proposal:
        said = sum(step.agent == self.name for step in history.steps)
        return Proposal(self.replies[said], nll=0.5 + said)


def needed_to_play(home: Path) -> Path:
    """Write questions, rollouts on them that are replayed, a router for them, and a log of served sessions."""
    (home / "d" / "da-dev-tables").mkdir(parents=True)
    (home / "d" / "da-dev-tables" / "plants.csv").write_text("height\n2\n3\n")
    for file, content in FILES.items():
        (home / file).write_bytes(b"".join(dumps(content | {"id": number}) + b"\n" for number in (2, 7, 10)))
    # Without pandas, which takes a second to import in each call.
    code = "```python\nprint(open('plants.csv').read())\n```"
    cheap, strong = Saying("cheap", (code, "let me think", "@mean[4.00]")), Saying("strong", (code, "@mean[2.50]"))
    with warnings.catch_warnings(action="ignore"):
        play(DABench(home / "d"), home / "kept", Players(cheap, strong, budget=Budget(4, calls=4)))
    names = {"diagnostic_names": ("protocol_violation",), "feature_names": ("answer_arity",)}
    replace(threshold_router(1, "proposal"), **names).save(home / "router.json")
    serve(home)
    return home


def read_played(folder: Path) -> object:
    """What was done in every episode of every folder in it; none under its own name is torn or broken."""
    folders = [each for each in (folder, folder / "rollouts", folder / "played") if each.is_dir()]
    with warnings.catch_warnings(action="error"):
        found = {
            f"{each.name}/{name}": [step.proposal.action for step in transcript.steps]
            for each in folders
            for name, transcript in read_transcripts(each).items()
        }
    for page in (folder / "pages").glob("*.html"):
        found[page.name] = [str(read_page(page))]
    return found


def read_sessions(folder: Path) -> object:
    """Who made which reply, from lines none of which is torn; no session goes back to Cheap."""
    sides: dict[str, str] = defaultdict(str)
    log = folder / "served.jsonl"
    for line in log.read_bytes().splitlines() if log.exists() else ():
        known = json.loads(line)
        if known["event"] == "reply":
            sides[known["episode"]] += known["side"][0]
    assert not [served for served in sides.values() if "sc" in served], sides
    return dict(sides)


def playing_commands() -> list[Writer]:
    """Return what needs `needed_to_play`."""
    words = ["--out", "rollouts", "--counterfactuals", "c2.csv", "--force"]
    beside = ("rollouts-handoffs", "c2.csv")
    judged = ["evaluate", "router.json", *COMMON, "--out", "played", "--pages", "--resamples", "20"]
    pages = ["monitor", "served.jsonl", "--out", "m.html", "--force"]
    return [
        *(
            Writer(
                f"bayes-tacit collect --workers {number}",
                "rollouts",
                read_played,
                ["collect", *COMMON, *words, "--workers", str(number)],
                grows=True,
                beside=beside,
            )
            for number in (1, 2)
        ),
        Writer("bayes-tacit evaluate", "played", read_played, judged, grows=True),
        Writer("monitor", "m.html", read_page, pages),
        Writer("serve --log --state", "sessions", read_sessions, work=lambda: serve(Path("sessions")), grows=True),
    ]
