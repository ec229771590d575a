"""Running studies: the runner, what it keeps, tables and figures."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from threadpoolctl import threadpool_limits
from toy_study import FAILING, broken_replicate, counting_replicate, failing_replicate, toy

from bayes_tacit.errors import FileFormatError, InvalidDataError, MissingDependencyError
from simulations.__main__ import main
from simulations.studies import tables
from simulations.studies.run import StudyError, run_study
from simulations.studies.storage import TABLE, Kept, read_identity, read_table
from simulations.studies.study import STUDIES, Setting, load
from simulations.studies.tables import Comparison, Tolerance, comparison_table, mean_and_half_width

KEPT = "replicates-11.jsonl"


def files(folder):
    """Content of the results, without the kept replicates, whose order is that of finishing."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".jsonl"}


@pytest.fixture
def finished(tmp_path):
    assert run_study(toy(), tmp_path / "toy")
    return tmp_path / "toy"


def test_results_are_table_page_and_figures_and_nothing_else(finished):
    assert {path.name for path in finished.iterdir()} == {KEPT, "replicates.parquet", "README.md", "figure.png"}
    table = read_table(finished / TABLE)
    assert table["setting"].tolist() == ["a"] * 12 + ["b"] * 6
    assert table["replicate"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0, 0, 1, 1, 2, 2]
    assert table["part"].tolist() == ["upper", "lower"] * 9
    page = (finished / "README.md").read_text()
    assert "python -m simulations toy --replicates 6 --seed 11" in page
    assert read_identity(finished / TABLE)["version"] in page
    assert "18 rows" in page


@pytest.mark.parametrize("cut", [1, 150])
def test_a_line_torn_anywhere_is_done_again(finished, cut):
    before = files(finished)
    whole = (finished / KEPT).read_bytes()
    (finished / KEPT).write_bytes(whole[:-cut])
    assert len(Kept(finished, toy(), 11).done) == 8
    run_study(toy(), finished)
    assert files(finished) == before
    assert (finished / KEPT).read_bytes() == whole


def test_more_replicates_go_on_and_fewer_use_the_first(finished, tmp_path):
    six = files(finished)
    run_study(toy(), finished, replicates=9)
    run_study(toy(), tmp_path / "nine", replicates=9)
    assert files(finished) == files(tmp_path / "nine")
    run_study(toy(), finished, replicates=6)
    assert files(finished) == six
    assert len(Kept(finished, toy(), 11).done) == 9 + 5


OTHERS = [
    ("seed", {}, 12),
    ("design", {"settings": [Setting("a", {"loc": 0.0}), Setting("b", {"loc": 2.0}, share=0.5)]}, 11),
    ("design", {"parameters": {"size": 61}}, 11),
    ("study", {"name": "other"}, 11),
]


@pytest.mark.parametrize("only_the_table", [False, True])
@pytest.mark.parametrize(("field", "changes", "seed"), OTHERS)
def test_results_of_something_else_are_refused_and_left_alone(finished, field, changes, seed, only_the_table):
    if only_the_table:
        (finished / KEPT).unlink()
    before = {path.name: path.read_bytes() for path in finished.iterdir()}
    with pytest.raises(FileFormatError, match=rf"has {field} .*--out.*--fresh"):
        run_study(toy(**changes), finished, seed=seed)
    assert {path.name: path.read_bytes() for path in finished.iterdir()} == before


DAMAGE = {
    "a header that is cut": lambda content: content.partition(b"\n")[0],
    "nothing": lambda content: content[:0],
    "no text": lambda content: content + b"\xff\xfe\n",
    "a setting that is not there": lambda content: content + b'{"setting": "z", "replicate": 0, "rows": []}\n',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_refused_and_left_as_it_is(finished, damage):
    (kept,) = finished.glob("replicates-*.jsonl")
    damaged = DAMAGE[damage](kept.read_bytes())
    kept.write_bytes(damaged)
    with pytest.raises(FileFormatError, match="--fresh"):
        run_study(toy(), finished)
    assert kept.read_bytes() == damaged


def test_fresh_starts_over(finished, tmp_path):
    run_study(toy(), finished, seed=12, fresh=True)
    run_study(toy(), tmp_path / "twelve", seed=12)
    assert files(finished) == files(tmp_path / "twelve")
    assert [path.name for path in finished.glob("*.jsonl")] == ["replicates-12.jsonl"]


def test_a_table_that_does_not_say_what_made_it_is_refused(finished):
    (finished / KEPT).unlink()
    read_table(finished / TABLE).to_parquet(finished / TABLE)
    with pytest.raises(FileFormatError, match="does not say which study made it"):
        run_study(toy(), finished)
    (finished / TABLE).write_bytes(b"PAR1 nonsense")
    with pytest.raises(FileFormatError, match="not a readable Parquet file"):
        run_study(toy(), finished)


ROOT = Path(__file__).parents[2]
SMALL = ["recovery", "--replicates", "6", "--seed", "5"]


def command(*words, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "simulations", *map(str, words)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # Tests that run in the background of a shell have inherited that this signal is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **options,
    )


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """A small real study, computed in this process."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    run_study(load("recovery"), folder, replicates=6, seed=5)
    return folder


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_replicate_is_computed_on_one_thread(tmp_path, monkeypatch, jobs):
    """Sums over several threads would be rounded differently, depending on how many there are."""
    for library in ("OPENBLAS", "OMP"):
        monkeypatch.setenv(f"{library}_NUM_THREADS", "2")
    with threadpool_limits(2):
        run_study(toy(replicate=counting_replicate), tmp_path, jobs=jobs)
    assert set(read_table(tmp_path / TABLE)["threads"]) == {1}


def test_every_replicate_has_seeds_of_its_own_unless_settings_are_paired():
    def states(study):
        return [tuple(study.seeds(s, k, 11).generate_state(4)) for s in range(2) for k in range(5)]

    assert len(set(states(toy()))) == 10
    assert states(toy(paired=True))[:5] == states(toy(paired=True))[5:]
    assert len(set(states(toy(paired=True)))) == 5
    assert tuple(toy().seeds(0, 0, 12).generate_state(4)) not in states(toy())
    expected = np.random.SeedSequence(11, spawn_key=(1, 3)).generate_state(4)
    assert tuple(toy().seeds(1, 3, 11).generate_state(4)) == tuple(expected)


@pytest.mark.study
def test_a_dask_cluster_of_two_workers_gives_the_same_numbers(tmp_path, uninterrupted, monkeypatch):
    from distributed import LocalCluster

    monkeypatch.chdir(ROOT)
    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:
        address = cluster.scheduler_address
        run_study(load("recovery"), tmp_path / "real", replicates=6, seed=5, scheduler=address)
        with pytest.raises(StudyError, match="study toy, setting b, replicate 2: no candidate within the cap"):
            run_study(toy(replicate=failing_replicate), tmp_path / "toy", scheduler=address)
        assert len(cluster.scheduler_info["workers"]) == 2
    assert files(tmp_path / "real") == files(uninterrupted)
    assert len(Kept(tmp_path / "toy", toy(), 11).done) == 8


def wait_for_lines(path, count, process):
    deadline = time.monotonic() + 120
    while not path.exists() or path.read_bytes().count(b"\n") < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.attack
def test_a_killed_study_goes_on_and_ends_with_the_same_bytes(tmp_path, uninterrupted):
    kept = tmp_path / "replicates-5.jsonl"
    process = command(*SMALL, "--jobs", 2, "--out", tmp_path)
    wait_for_lines(kept, 1, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    survived = kept.read_bytes()
    assert not (tmp_path / TABLE).exists()
    with kept.open("ab") as file:
        file.write(b'{"setting": "n=8000", "replicate": 5, "rows": [{"q_rm')
    assert main([*SMALL, "--out", str(tmp_path)]) == 0
    assert files(tmp_path) == files(uninterrupted)
    assert kept.read_bytes().startswith(survived[: survived.rfind(b"\n") + 1])
    assert kept.read_bytes().count(b"\n") == 1 + 28


@pytest.mark.attack
def test_an_interrupted_study_says_how_to_go_on(tmp_path):
    process = command("recovery", "--replicates", 300, "--seed", 5, "--out", tmp_path)
    wait_for_lines(tmp_path / "replicates-5.jsonl", 3, process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in err
    assert "Traceback" not in out + err
    assert len(Kept(tmp_path, load("recovery"), 5).done) >= 2


def test_a_failing_replicate_is_named_and_the_others_are_kept(tmp_path):
    for jobs in (1, 2):
        with pytest.raises(
            StudyError, match=r"study toy, setting b, replicate 2: no candidate within the cap; .* kept"
        ):
            run_study(toy(replicate=failing_replicate), tmp_path, jobs=jobs)
        done = Kept(tmp_path, toy(), 11).done
        assert len(done) == 8
        assert ("b", FAILING) not in done
        assert not (tmp_path / TABLE).exists()


def test_an_unforeseen_error_says_what_and_where(tmp_path):
    with pytest.raises(StudyError, match=r"ZeroDivisionError in toy_study\.py:\d+: .*2 replicates failed"):
        run_study(toy(replicate=broken_replicate), tmp_path)


def test_chosen_settings_are_kept_and_the_results_written_once_all_are_there(tmp_path):
    assert not run_study(toy(), tmp_path / "parts", only=["b"])
    assert {path.name for path in (tmp_path / "parts").iterdir()} == {"replicates-11.jsonl"}
    assert run_study(toy(), tmp_path / "parts", only=["a"])
    run_study(toy(), tmp_path / "whole")
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


BAD = [
    (["nosuch"], "study is 'nosuch'; expected one of recovery, noise, "),
    (["recovery", "--setting", "n=7"], "setting is 'n=7'; expected one of n=500, n=2000, n=8000"),
    (["recovery", "--scheduler", "tcp://127.0.0.1:9"], "no Dask scheduler answers at tcp://127.0.0.1:9"),
    (["recovery", "--seed", "6"], "has seed 5, this run has 6; give another folder with --out, or --fresh"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(words) for words, _ in BAD])
def test_bad_input_ends_in_one_line_and_exit_code_2(tmp_path, capsys, monkeypatch, words, message):
    monkeypatch.setattr("simulations.studies.run.CONNECT_SECONDS", 0.3)
    run_study(load("recovery"), tmp_path, replicates=1, seed=5, only=["n=500"])
    before = (tmp_path / "replicates-5.jsonl").read_bytes()
    seed = [] if "--seed" in words else ["--seed", "5"]
    assert main([*words, *seed, "--replicates", "2", "--out", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert "Traceback" not in told.out + told.err
    (line,) = [line for line in told.err.splitlines() if line.startswith("error: ")]
    assert message in line
    assert (tmp_path / "replicates-5.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no study was named"),
        (["recovery", "--replicates", "0"], "replicates is 0; expected a whole number >= 1"),
        (["recovery", "--replicates", "x"], "--replicates: invalid int value: 'x'"),
        (["recovery", "--jobs", "0"], "jobs is 0"),
        (["recovery", "--seed", "-1"], "seed is -1"),
        (["recovery", "--nonsense"], "unrecognized arguments: --nonsense"),
        (["recovery", "--out", __file__], "cannot be the folder of the results"),
        (["recovery", "--scheduler", "nowhere"], "the scheduler's address is 'nowhere'"),
        (["all", "--setting", "n=500"], "no --setting when all studies are run"),
    ],
)
def test_bad_words_end_in_one_line_too(tmp_path, capsys, words, message):
    assert main([*words, *([] if "--out" in words else ["--out", str(tmp_path)])]) == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("error: ")
    assert message in line


def test_without_dask_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependencyError, match=r"bayes_tacit\[scale\]"):
        run_study(toy(), tmp_path, scheduler="tcp://127.0.0.1:8786")


def test_list_and_help_have_a_sentence_for_every_study(capsys):
    assert main(["--list"]) == 0
    listed = capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    for name in STUDIES:
        study = load(name)
        assert study.name == name
        assert study.description.endswith(".")
        assert f"  {name}" in listed
        assert study.description in listed
    assert listed.strip() in capsys.readouterr().out


def test_studies_can_be_told_apart_and_their_designs_written_down():
    studies = [load(name) for name in STUDIES]
    assert len({study.design() for study in studies}) == len(studies)
    for study in studies:
        json.dumps([study.parameters, [setting.values for setting in study.settings]])
        assert len({setting.name for setting in study.settings}) == len(study.settings)
        if study.cheapest is not None:
            study.position(study.cheapest)


def test_half_width_is_that_of_the_t_interval(rng):
    values = rng.normal(size=17)
    mean, half = mean_and_half_width(values)
    low, high = stats.t.interval(0.95, 16, loc=np.mean(values), scale=stats.sem(values))
    assert (mean - half, mean + half) == pytest.approx((low, high))


def test_table_says_what_is_within_and_what_is_outside():
    text = comparison_table(
        [Comparison("near", 50.0, [50.0, 51.0], 0.3), Comparison("far", 60.0, [60.0, 61.6])],
        Tolerance(0.7, "points"),
        2,
    )
    near, far = text.splitlines()[2:4]
    assert near == "| near | 50.00 ± 0.30 | 50.50 ± 6.35 | +0.50 | within 0.7 points |"
    assert far == "| far | 60.00 | 60.80 ± 10.16 | +0.80 | **outside** 0.7 points |"
    assert text.endswith("1 of 2 within 0.7 points of the paper, a tolerance of ours; outside: far.")


def test_what_the_paper_does_not_have_is_shown_and_not_counted():
    text = comparison_table(
        [Comparison("ours alone", None, [50.0, 51.0]), Comparison("near", 50.0, [50.0, 50.0])], Tolerance(0.7), 2
    )
    assert "| ours alone | not in the paper | 50.50 ± 6.35 |  | not compared |" in text
    assert text.endswith("1 of 1 within 0.7 of the paper, a tolerance of ours.")


@pytest.mark.parametrize(("difference", "within"), [(0.7, True), (-0.7, True), (0.701, False), (-0.701, False)])
def test_the_limit_itself_is_within(difference, within):
    assert Tolerance(0.7, "points").admits(difference, 62.4) is within


def test_a_page_whose_tables_are_not_those_that_it_was_written_for_says_so(monkeypatch, tmp_path):
    monkeypatch.setattr(tables, "PAGES", tmp_path)
    written = {"first": "| a |", "second": "| b |"}
    (tmp_path / "toy.md").write_text(
        f"<!-- sentences for tables {tables.digest(written)} -->\nIt rises.\n\n{{{{ first }}}}\n\n{{{{ second }}}}\n"
    )
    assert tables.fill("toy", **written) == "It rises.\n\n| a |\n\n| b |\n"
    other = tables.fill("toy", first="| a |", second="| c |")
    assert other.startswith(tables.OTHER_TABLES)
    assert "| c |" in other
    with pytest.raises(InvalidDataError, match=r"a place .* for the table"):
        tables.fill("toy", third="| d |")
