"""Two logs become episodes: what is paired, what is carried along, what is said of the rest, by one process or more."""

import json

import numpy as np
import pytest
from conversations import answer, asked, call, rollout, turn, write

from bayes_tacit import Counterfactuals, Episodes
from bayes_tacit.data.costs import Price, TokenCost
from bayes_tacit.errors import InvalidDataError, TacitError, TacitWarning
from bayes_tacit.logs import episodes_from_logs, import_logs, importing

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")


@pytest.fixture
def logs(tmp_path):
    """Write two logs and import them."""

    def imported(cheap, strong, suffix=".jsonl", **options):
        files = write(tmp_path / "cheap.jsonl", *cheap), write(tmp_path / "strong.jsonl", *strong)
        out = tmp_path / f"episodes{suffix}"
        return import_logs(*files, out, **options), Episodes.read(out)

    return imported


def test_rollouts_of_the_same_task_are_paired_in_the_order_of_cheap(logs):
    cheap = [rollout("b", success=False), rollout("a", success=True, turns=3), rollout("c", success=False)]
    strong = [rollout("c", success=False), rollout("a", success=False), rollout("b", success=True, turns=5)]
    report, episodes = logs(cheap, strong)
    assert episodes.ids.tolist() == ["b", "a", "c"]
    assert episodes.outcomes.tolist() == ["01", "10", "00"]
    assert episodes.n_steps.tolist() == [2, 3, 2]
    assert episodes.dataset["strong_steps"].values.tolist() == [5, 2, 2]
    assert report.outcomes == {"00": 1, "01": 1, "10": 1, "11": 0}


def test_what_cannot_be_paired_is_counted_and_named(logs):
    report, episodes = logs([rollout("a"), rollout("x"), rollout("y")], [rollout("z"), rollout("a")], unpaired="drop")
    assert episodes.ids.tolist() == ["a"]
    assert (report.unpaired_cheap.count, report.unpaired_cheap.examples) == (2, ("x", "y"))
    assert (report.unpaired_strong.count, report.unpaired_strong.examples) == (1, ("z",))
    assert "not paired: 2 rollouts of Cheap without one of Strong (x, y)" in str(report)


def test_trials_are_episodes_of_their_own_and_carry_their_task(logs):
    cheap = [rollout("a", trial=10, success=True), rollout("a", trial=2, success=False), rollout("b", trial=0)]
    strong = [rollout("a", trial=0, turns=7), rollout("b", trial=0), rollout("a", trial=1, turns=8)]
    report, episodes = logs(cheap, strong)
    # Trial 2 comes before trial 10, and goes with the first of Strong.
    found = dict(zip(episodes.ids.tolist(), episodes.dataset["strong_steps"].values.tolist(), strict=True))
    assert found == {"a#1": 7, "a#2": 8, "b#1": 2}
    assert dict(zip(episodes.ids, episodes.outcomes, strict=True))["a#1"] == "01"
    assert sorted(episodes.dataset["task"].values.tolist()) == ["a", "a", "b"]
    assert len(episodes.split({"one": 0.5, "two": 0.5}, by="task")["one"]) in (1, 2)
    assert report.trials


def test_a_task_that_comes_twice_without_a_trial_is_refused_or_numbered(logs):
    twice = [rollout("a"), rollout("b"), rollout("a")]
    with pytest.raises(
        InvalidDataError, match=r"cheap.jsonl:1 and .*cheap.jsonl:3: task is 'a'; expected each task once"
    ):
        logs(twice, [rollout("a")])
    _, episodes = logs(twice, twice, trials="number")
    assert sorted(episodes.ids.tolist()) == ["a#1", "a#2", "b#1"]
    with pytest.raises(InvalidDataError, match="'a, trial 1'"):
        logs([rollout("a", trial=1)] * 2, [rollout("a")], trials="number")


def test_a_score_is_a_success_from_the_threshold_on(logs):
    def scored(score):
        return {key: value for key, value in rollout("a", score=score).items() if key != "success"}

    _, episodes = logs([scored(0.7)], [scored(0.5)], threshold=0.7)
    assert episodes.outcomes.tolist() == ["10"]
    assert episodes.dataset["cheap_score"].item() == 0.7
    assert episodes.dataset["strong_score"].item() == 0.5


def spending(task, steps, **more):
    messages = [asked()]
    for at, (tokens, cost) in enumerate(steps):
        usage = {"prompt_tokens": tokens, "completion_tokens": tokens / 2, "cost": cost}
        messages += [turn(call(q=at), usage=usage), answer(str(at))]
    return {"task": task, "success": True, "messages": messages} | more


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".nc", ".zarr"])
def test_tokens_and_cost_are_carried_along_in_every_format(logs, suffix):
    cheap = [spending("a", [(10, 0.5), (20, 1.5)]), rollout("b", turns=1)]
    strong = [rollout("a", usage={"input_tokens": 7}, cost=9), rollout("b")]
    report, episodes = logs(cheap, strong, suffix)
    data = episodes.dataset
    assert data["cheap_cost"].values.tolist()[0] == 2
    assert np.isnan(data["cheap_cost"].values[1])
    assert data["cheap_input_tokens"].values[0] == 30
    assert data["cheap_output_tokens"].values[0] == 15
    assert data["step_cost"].values[0].tolist() == [0.5, 1.5]
    assert np.isnan(data["step_cost"].values[1]).all()
    assert data["strong_cost"].values[0] == 9
    assert data["strong_input_tokens"].values[0] == 7
    assert data["strong_steps"].values.tolist() == [2, 2]
    assert "strong_output_tokens" not in data
    assert set(report.carried) == {
        "strong_steps", "cheap_cost", "cheap_input_tokens", "cheap_output_tokens", "strong_cost",
        "strong_input_tokens", "step_cost", "step_input_tokens", "step_output_tokens",
    }  # fmt: skip


def test_uncertainty_is_there_if_every_cheap_step_has_it_and_otherwise_it_is_said(logs):
    def sure(task, *nll):
        turns = [turn(text="x", logprobs=[-one]) if one is not None else turn(text="x") for one in nll]
        return {"task": task, "success": True, "messages": [asked(), *turns]}

    _, episodes = logs([sure("a", 0.25, 2.0)], [rollout("a")])
    assert episodes.dataset["diagnostics"].sel(diagnostic="uncertainty").values[0].tolist() == [0.25, 2.0]
    report, episodes = logs([sure("a", 0.25, 2.0), sure("b", 1.0, None)], [rollout("a"), rollout("b")])
    assert "uncertainty" not in episodes.diagnostic_names
    assert "uncertainty is left out: 1 Cheap rollouts have steps without log-probabilities" in report.notes


def test_a_users_table_adds_features_and_texts(logs, tmp_path):
    (tmp_path / "tasks.csv").write_text("task,level,database\na,3,x\nb,4.5,y\n", encoding="utf-8")
    cheap = [rollout("a", features={"given": 1}), rollout("b", features={"given": 2})]
    _, episodes = logs(cheap, [rollout("a"), rollout("b")], tasks=tmp_path / "tasks.csv")
    assert episodes.feature_names == ("prompt_length", "given", "level")
    assert episodes.dataset["features"].sel(feature="level").values.tolist() == [3, 4.5]
    assert episodes.dataset["database"].values.tolist() == ["x", "y"]


@pytest.mark.parametrize("name", ["window", "strong_steps", "prompt_length", "cheap_cost"])
def test_a_users_name_cannot_be_one_that_is_taken(logs, tmp_path, name):
    (tmp_path / "tasks.csv").write_text(f"task,{name}\na,3\n", encoding="utf-8")
    with pytest.raises(InvalidDataError, match=f"is '{name}'; expected a name other than"):
        logs([rollout("a")], [rollout("a")], tasks=tmp_path / "tasks.csv")
    with pytest.raises(InvalidDataError, match=f"is '{name}'; expected a name other than"):
        logs([rollout("a", features={name: 1})], [rollout("a")])


def test_logs_of_different_tasks_are_kept_side_by_side(logs):
    cheap = [rollout("a"), rollout("b", success=False), rollout("p")]
    strong = [rollout("c"), rollout("d", success=False), rollout("p"), rollout("e")]
    with pytest.warns(TacitWarning, match=r"Strong was not played \(2\): 'a', 'b'"):
        report, episodes = logs(cheap, strong)
    by_task = dict(zip(episodes.ids.tolist(), episodes.outcomes.tolist(), strict=True))
    assert by_task == {"p": "11", "a": "1-", "b": "0-", "c": "-1", "d": "-0", "e": "-1"}
    assert report.outcomes["-1"] == 2
    assert (report.unpaired_cheap.count, report.unpaired_strong.count) == (0, 0)
    assert "1 tasks were played by both, 2 by Cheap only and 3 by Strong only" in str(report)
    assert "play some 40 tasks on both" in str(report)
    assert episodes.pairs().ids.tolist() == ["p"]
    dropped, paired = logs(cheap, strong, unpaired="drop")
    assert (len(paired), dropped.unpaired_strong.count) == (1, 3)


def test_intercode_results_are_read_as_they_are(tmp_path):
    def results(rewards):
        record = {
            "environment": "ic_sql",
            "task_id": 4,
            "query": "How many heads?",
            "turn_history": {
                "actions": ["SELECT 1", "SELECT 1", ""][: len(rewards)],
                "observations": ["No SQL code was found.", "No SQL code was found.", "[]"][: len(rewards)],
                "rewards": rewards,
                "valid_action": [False] * len(rewards),
            },
            "summary": {"max_reward": max(rewards), "turns_taken": len(rewards)},
            "hardness": "easy",
        }
        return json.dumps({"4": record}, indent=2)

    (tmp_path / "c.json").write_text(results([0.0, 0.0, 0.5]), encoding="utf-8")
    # Some of its programs write their settings beside the records.
    (tmp_path / "s.json").write_text(f'{{"meta": {{"seed": 1}}, "logs": {results([1.0])}}}', encoding="utf-8")
    episodes, report = episodes_from_logs(tmp_path / "c.json", tmp_path / "s.json")
    assert report.formats == ("intercode", "intercode")
    assert episodes.outcomes.tolist() == ["01"]
    assert episodes.feature_names == ("prompt_length",)
    values = episodes.dataset["diagnostics"].values[0].astype(int).tolist()
    assert values == [[0, 0, 1, 0, 0, 0], [1, 0, 1, 1, 0, 0], [0, 0, 0, 0, 0, 1]]


@pytest.fixture
def log(tmp_path):
    """Lines of many lengths, some of them blank, the last without an end."""
    rollouts = [rollout(f"täsk {at}", success=at % 3 == 0, turns=1 + at % 7) for at in range(60)]
    lines = [
        line for one in rollouts for line in (json.dumps(one, ensure_ascii=False), *([""] * (len(one["task"]) % 2)))
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_processes_write_what_one_writes(log, tmp_path, monkeypatch):
    one = import_logs(log, log, tmp_path / "one.jsonl")
    monkeypatch.setattr(importing, "SMALLEST", 0)
    monkeypatch.setattr(importing, "PORTION", 4000)
    read = []
    two = import_logs(
        log, log, tmp_path / "two.jsonl", workers=2, progress=lambda side, size: read.append((side, size))
    )
    assert two == one
    assert (tmp_path / "two.jsonl").read_bytes() == (tmp_path / "one.jsonl").read_bytes()
    assert {side for side, _ in read} == {"cheap", "strong"}


def test_an_error_is_told_with_its_line_as_by_one_process(tmp_path, monkeypatch):
    rollouts = [rollout(at) for at in range(40)]
    for at, broken in ((25, {"task": 25, "messages": []}), (30, "torn")):
        path = write(tmp_path / "log.jsonl", *rollouts[:at], broken, *rollouts[at + 1 :])
        said = []
        for smallest in (10**9, 0):
            monkeypatch.setattr(importing, "SMALLEST", smallest)
            monkeypatch.setattr(importing, "PORTION", 4000)
            with pytest.raises(TacitError, match=rf"log\.jsonl:{at + 1}\b") as caught:
                import_logs(path, path, tmp_path / "out.jsonl", workers=2)
            said.append(str(caught.value))
        assert said[0] == said[1]
        assert not (tmp_path / "out.jsonl").exists()


PRICES = (Price.parse("1,0.1,4"), Price.parse("10,1,40,12.5"))


def test_tokens_are_priced_by_what_was_cached_written_and_said(logs):
    """OpenAI counts what was cached among the tokens in, Anthropic beside them."""
    openai = {"prompt_tokens": 1000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 600}}
    anthropic = {
        "input_tokens": 300,
        "output_tokens": 100,
        "cache_read_input_tokens": 600,
        "cache_creation_input_tokens": 100,
    }
    cheap, strong = rollout("a"), rollout("a", success=False, usage=anthropic)
    for message in cheap["messages"]:
        if message["role"] == "assistant":
            message |= {"usage": openai, "seconds": 2}
    report, episodes = logs([cheap], [strong], prices=PRICES)
    data = episodes.dataset
    assert data["step_cost"].values.tolist() == [pytest.approx([(400 + 60 + 400) / 1e6] * 2)]
    assert data["strong_cost"].item() == pytest.approx((3000 + 600 + 1250 + 4000) / 1e6)
    assert (data["cheap_cached_tokens"].item(), data["strong_input_tokens"].item()) == (1200, 1000)
    assert (data["step_seconds"].values.tolist(), data["cheap_seconds"].item()) == ([[2, 2]], 4)
    table = Counterfactuals.from_restarts(episodes, cost=TokenCost(*PRICES)).table()[1, 0]
    assert table[1] == pytest.approx(data["step_cost"].values[0, 0] + data["strong_cost"].item())
    assert "estimated" not in str(report)


def test_without_usage_tokens_are_estimated_from_the_letters_and_said_so(logs):
    messages = [asked("x" * 400), turn(text="y" * 40), asked("z" * 80), turn(text="w" * 40)]
    both = [{"task": "a", "success": True, "messages": messages}]
    report, episodes = logs(both, both, prices=PRICES)
    data = episodes.dataset
    assert data["step_input_tokens"].values.tolist() == [[100, 130]]
    assert data["step_cached_tokens"].values.tolist() == [[0, 110]]
    assert data["step_cost"].values[0] == pytest.approx([140 / 1e6, (20 + 11 + 40) / 1e6])
    assert "tokens of 1 pairs are estimated" in str(report)
    assert "step_cost" not in logs(both, both)[1].dataset


@pytest.mark.parametrize("workers", [1, 2])
def test_broken_records_are_skipped_when_asked_and_counted(tmp_path, monkeypatch, workers):
    monkeypatch.setattr(importing, "SMALLEST", 0)
    log = write(tmp_path / "log.jsonl", rollout("a"), {"task": "b", "messages": []}, rollout("c"), {"none": 1})
    log.write_text(log.read_text() + '{"task": "d", "mess\n' + json.dumps(rollout("e")) + "\n")
    strong = write(tmp_path / "strong.jsonl", *map(rollout, "abcde"))
    with pytest.raises(TacitError, match="jsonl:2"):
        import_logs(log, strong, tmp_path / "out.jsonl")
    report = import_logs(log, strong, tmp_path / "out.jsonl", skip_broken=True, workers=workers)
    assert report.episodes == 3
    assert "3 broken records were skipped: " in str(report)
    assert all(f"log.jsonl:{line}" in str(report) for line in (2, 4, 5))


def test_a_record_of_intercode_that_is_broken_does_not_take_the_others_along(tmp_path):
    history = {"actions": ["SELECT 1"], "observations": ["[(1,)]"]}
    records = {str(at): {"query": "q", "turn_history": history, "summary": {"max_reward": 1}} for at in range(3)}
    records["1"] = records["1"] | {"turn_history": {**history, "observations": []}}
    (tmp_path / "log.json").write_text(json.dumps(records))
    assert import_logs(*[tmp_path / "log.json"] * 2, tmp_path / "o.jsonl", skip_broken=True).episodes == 2


def test_numbered_trials_with_other_prompts_are_refused(logs):
    cheap, strong = ([rollout("a"), rollout("a")] for _ in range(2))
    assert logs(cheap, strong, trials="number")[0].episodes == 2
    strong[1]["messages"][0]["content"] = "Do something else."
    with pytest.raises(InvalidDataError, match="the same prompt on both sides"):
        logs(cheap, strong, trials="number")
