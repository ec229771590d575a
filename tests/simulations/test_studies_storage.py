"""Kept replicates: what is torn is done again, what belongs to something else is refused."""

import json

import pytest
from toy_study import toy

from bayes_tacit.errors import FileFormatError, InvalidDataError
from simulations.studies.run import SchedulerError, run_study
from simulations.studies.storage import TABLE, Kept, read_identity, read_table
from simulations.studies.study import Setting

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


@pytest.mark.parametrize("cut", [1, 20, 150])
def test_a_line_torn_anywhere_is_done_again(finished, cut):
    before = files(finished)
    whole = (finished / KEPT).read_bytes()
    (finished / KEPT).write_bytes(whole[:-cut])
    assert len(Kept(finished, toy(), 11).done) == 8
    run_study(toy(), finished)
    assert files(finished) == before
    assert (finished / KEPT).read_bytes() == whole


def test_what_is_kept_is_not_computed_again(finished):
    lines = (finished / KEPT).read_text().splitlines(keepends=True)
    record = json.loads(lines[3])
    record["rows"][0]["mean"] = 77.0
    lines[3] = json.dumps(record) + "\n"
    (finished / KEPT).write_text("".join(lines[:5]))
    run_study(toy(), finished)
    assert (read_table(finished / TABLE)["mean"] == 77.0).sum() == 1


def test_a_damaged_line_is_named(finished):
    lines = (finished / KEPT).read_text().splitlines(keepends=True)
    (finished / KEPT).write_text("".join([*lines[:3], "{nonsense}\n", *lines[4:]]))
    with pytest.raises(FileFormatError, match=r"replicates-11\.jsonl, line 4: not a kept replicate"):
        run_study(toy(), finished)


def test_more_replicates_go_on_and_fewer_use_the_first(finished, tmp_path):
    six = files(finished)
    run_study(toy(), finished, replicates=9)
    run_study(toy(), tmp_path / "nine", replicates=9)
    assert files(finished) == files(tmp_path / "nine")
    run_study(toy(), finished, replicates=6)
    assert files(finished) == six
    assert len(Kept(finished, toy(), 11).done) == 9 + 5


def test_a_finished_table_alone_is_gone_on_from(finished, tmp_path):
    (finished / KEPT).unlink()
    run_study(toy(), finished, replicates=9)
    run_study(toy(), tmp_path / "nine", replicates=9)
    assert files(finished) == files(tmp_path / "nine")


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


@pytest.mark.parametrize("only_the_table", [False, True])
def test_results_of_another_version_are_refused(finished, monkeypatch, only_the_table):
    if only_the_table:
        (finished / KEPT).unlink()
    monkeypatch.setattr("simulations.studies.storage.version", lambda _: "99.0")
    with pytest.raises(FileFormatError, match=r"has version '\d.*', this run has '99\.0'"):
        run_study(toy(), finished)


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


def test_fresh_discards_nothing_if_the_scheduler_does_not_answer(finished):
    (kept,) = finished.glob("replicates-*.jsonl")
    before = kept.read_bytes()
    with pytest.raises(SchedulerError):
        run_study(toy(), finished, fresh=True, scheduler="nonsense")
    assert kept.read_bytes() == before


def test_committed_results_are_not_replaced_by_fewer_replicates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        InvalidDataError, match=r"replicates is 1; expected at least \d+, as the committed results have"
    ):
        run_study(toy(), replicates=1)
    assert not list(tmp_path.iterdir())


def test_fresh_starts_over(finished, tmp_path):
    run_study(toy(), finished, seed=12, fresh=True)
    run_study(toy(), tmp_path / "twelve", seed=12)
    assert files(finished) == files(tmp_path / "twelve")
    assert [path.name for path in finished.glob("*.jsonl")] == ["replicates-12.jsonl"]


def test_a_stopped_fresh_start_goes_on_although_the_old_table_is_still_there(finished, tmp_path):
    before = files(finished)
    assert not run_study(toy(), finished, seed=12, fresh=True, only=["b"])
    assert files(finished) == before
    run_study(toy(), finished, seed=12)
    run_study(toy(), tmp_path / "twelve", seed=12)
    assert files(finished) == files(tmp_path / "twelve")


def test_a_table_that_does_not_say_what_made_it_is_refused(finished):
    (finished / KEPT).unlink()
    read_table(finished / TABLE).to_parquet(finished / TABLE)
    with pytest.raises(FileFormatError, match="does not say which study made it"):
        run_study(toy(), finished)
    (finished / TABLE).write_bytes(b"PAR1 nonsense")
    with pytest.raises(FileFormatError, match="not a readable Parquet file"):
        run_study(toy(), finished)


def test_a_failing_summary_leaves_the_old_results(finished):
    before = files(finished)

    def summarize(table, folder):
        (folder / "figure.png").write_bytes(b"half")
        raise RuntimeError(f"{len(table)} rows")

    with pytest.raises(RuntimeError, match="24 rows"):
        run_study(toy(summarize=summarize), finished, replicates=8)
    assert files(finished) == before
    assert len(Kept(finished, toy(), 11).done) == 12
