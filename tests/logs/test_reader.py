"""The reader: what it learns from words, that no task is read by one that saw it, and that its file says the same."""

import json

import numpy as np
import pytest
from conversations import answer, asked, call, turn, write

from bayes_tacit import Episodes
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs import import_logs
from bayes_tacit.logs.extractor import StepExtractor
from bayes_tacit.logs.learning import Design, learn
from bayes_tacit.logs.messages import spelled_out
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES, Read, Reader, Script, texts_of

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

WORDS = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]


def played(rng, told=True):
    """Return messages, and whether Cheap and Strong succeed: the prompt tells of Strong, an answer of Cheap."""
    cheap, strong = rng.random(2) < 0.5
    prompt = " ".join([*rng.choice(WORDS, 5), "easy" if strong and told else "list"])
    messages = [asked(prompt)]
    for step in range(3):
        messages.append(turn(call(query=f"SELECT {rng.choice(WORDS)}")))
        failed = step >= 1 and not cheap and told
        messages.append(answer(" ".join([*rng.choice(WORDS, 4), "bogus" if failed else "rows"])))
    return messages, bool(cheap), bool(strong)


def script_of(messages):
    extractor = StepExtractor()
    extractor.extend(messages)
    return Script.of(messages, extractor.flags)


def learned(n=120, seed=0, told=True):
    rng = np.random.default_rng(seed)
    tasks = [played(rng, told) for _ in range(n)]
    scripts = [script_of(messages) for messages, *_ in tasks]
    cheap, strong = (np.array([task[at] for task in tasks], dtype=float) for at in (1, 2))
    return tasks, learn(scripts, cheap, strong, range(n))


@pytest.fixture(scope="module")
def taught():
    return learned()


def test_words_that_tell_are_learned_and_show_in_the_step_that_has_them(taught):
    tasks, found = taught
    fails = [not cheap for _, cheap, _ in tasks]
    odds = np.array(found.odds)
    assert odds.shape == (120, 4, 2)
    assert np.mean((odds[:, 3, 0] < 0) == fails) > 0.9
    assert np.mean((odds[:, 1, 0] < 0) == fails) < 0.7, "before the answer that tells nothing is known"
    assert np.mean((odds[:, 0, 1] > 0) == [strong for *_, strong in tasks]) > 0.95
    assert min(found.gains) > 0.2


def test_words_that_tell_nothing_gain_nothing_on_tasks_left_out():
    """A reader that had seen their outcomes would know them: there are more words than tasks."""
    _, found = learned(told=False)
    assert max(found.gains) < 0.1


def test_a_reader_read_from_its_file_reads_alike_and_one_message_at_a_time(taught):
    tasks, found = taught
    reader = Reader.from_dict(json.loads(json.dumps(found.reader.to_dict())))
    for messages, *_ in tasks[:5]:
        extractor = StepExtractor()
        extractor.extend(messages)
        prompt, turns = texts_of(messages)
        read = reader.start(prompt)
        rows = [read.now]
        for texts, flags in zip(turns, extractor.flags, strict=True):
            read = reader.read(Read.from_dict(json.loads(json.dumps(read.to_dict()))), *texts, flags)
            rows.append(read.now)
        np.testing.assert_array_equal(rows, found.reader.odds(script_of(messages)))
        chances = 1 / (1 + np.exp(-np.array(rows)))
        values = read.diagnostics()
        assert values["cheap_fails"] == pytest.approx(1 - chances[-1, 0])
        assert values["cheap_worsens"] == pytest.approx(max(0, chances[-2, 0] - chances[-1, 0]))
        assert values["handoff_gains"] == pytest.approx(max(0, chances[-1, 1] - chances[-1, 0]))
        assert list(read.features().values()) == list(rows[0])


def test_products_with_the_design_are_those_with_its_matrix(taught):
    """The matrix is made here row by row, prefixes as plain sums."""
    tasks, _ = taught
    scripts = [script_of(messages) for messages, *_ in tasks[:6]]
    design = Design.of(scripts, width=2**14)
    rows, at = [], 0
    for number, script in enumerate(scripts):
        turns = design.turns.toarray()[at : at + len(script.turns)]
        prompt = design.prompts.toarray()[number]
        for step in range(len(script.turns) + 1):
            latest = turns[step - 1] if step else 0 * prompt
            prefix = turns[:step].sum(axis=0) / np.sqrt(max(step, 1))
            rows.append(np.concatenate([design.numbers[len(rows)], prompt, latest, prefix]))
        at += len(script.turns)
    matrix, rng = np.array(rows), np.random.default_rng(1)
    weights, values = rng.normal(size=matrix.shape[1]), rng.normal(size=len(matrix))
    np.testing.assert_allclose(design.times(weights), matrix @ weights, atol=1e-9)
    np.testing.assert_allclose(design.transposed_times(values), matrix.T @ values, atol=1e-9)


def test_a_script_comes_back_from_its_bytes(taught):
    for messages in (taught[0][0][0], [asked(""), turn()]):
        script = script_of(messages)
        back = Script.from_bytes(script.to_bytes())
        assert back.to_bytes() == script.to_bytes()
        assert (back.length, [one.said for one in back.turns]) == (script.length, [one.said for one in script.turns])


def test_a_reader_is_learned_from_two_logs_of_different_tasks(tmp_path):
    rng = np.random.default_rng(1)
    logs, solved = {"cheap": [], "strong": []}, {}
    for number in range(160):
        messages, cheap, strong = played(rng)
        side, success = ("cheap", cheap) if number % 2 else ("strong", strong)
        logs[side].append({"task": str(number), "success": success, "messages": messages})
        solved[str(number)] = strong
    files = [write(tmp_path / f"{side}.jsonl", *rollouts) for side, rollouts in logs.items()]
    import_logs(*files, tmp_path / "episodes.jsonl", unpaired="keep")
    episodes = Episodes.read(tmp_path / "episodes.jsonl")
    # What Strong's log tells of its prompts is read in the tasks that Cheap alone played.
    cheap = episodes.take(episodes.cheap_played).dataset
    chance = cheap["features"].sel(feature=FEATURES[1]).values
    assert np.mean((chance > 0) == [solved[name] for name in cheap["episode"].values.tolist()]) > 0.85


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".nc", ".zarr"])
def test_import_learns_a_reader_that_goes_along_in_the_file(tmp_path, suffix):
    rng = np.random.default_rng(0)
    logs = {"cheap": [], "strong": []}
    for number in range(40):
        messages, cheap, strong = played(rng)
        for side, success in (("cheap", cheap), ("strong", strong)):
            logs[side].append({"task": str(number), "success": success, "messages": messages})
    files = [write(tmp_path / f"{side}.jsonl", *rollouts) for side, rollouts in logs.items()]
    out = tmp_path / f"episodes{suffix}"
    report = import_logs(*files, out)
    episodes = Episodes.read(out)
    assert episodes.feature_names == ("prompt_length", *FEATURES)
    assert episodes.diagnostic_names[-4:] == DIAGNOSTICS
    assert "a reader was learned from 40 tasks" in str(report)
    reader = Reader.of(episodes.take(slice(0, 5)))
    assert reader is not None
    assert reader.tasks == 40
    assert len(json.dumps(reader.to_dict())) < 500_000
    import_logs(*files, tmp_path / "plain.jsonl", words=False)
    assert Reader.of(Episodes.read(tmp_path / "plain.jsonl")) is None


@pytest.mark.parametrize(
    ("field", "value"), [("words", "AAAA"), ("words", "?"), ("rarity", None), ("width", 0), ("scale", [0.0] * 17)]
)
def test_a_damaged_reader_is_refused(field, value):
    record = Reader.blank(8).to_dict()
    assert Reader.from_dict(record).width == 8
    with pytest.raises(InvalidDataError, match=field):
        Reader.from_dict({**record, field: value})


@pytest.mark.parametrize(
    ("said", "action"),
    [
        ("I look.\n<execute> ls </execute>", "ls"),
        ("Thought: look\nAction: search[keys]", "search[keys]"),
        ("Look:\n```bash\nls -l\n```", "ls -l"),
    ],
)
def test_actions_of_agents_without_calls_have_signs(said, action):
    messages = [asked("Find it.")]
    for _ in range(2):
        messages += [turn(text=said), asked("Error: no such file or directory")]
    extractor = StepExtractor()
    extractor.extend(spelled_out(messages))
    assert json.loads(spelled_out(messages)[1]["tool_calls"][0]["function"]["arguments"]) == {"text": action}
    signs = {name for name, value in extractor.diagnostics().items() if value}
    assert signs == {"repeated_call", "tool_error", "unchanged_observation"}
