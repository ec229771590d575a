"""The experiments on ALFWorld's games: every policy is played, by the scripted and by the learned pair."""

from __future__ import annotations

import json
import os
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from alfworld_fit import fit_of_made_up_episodes

from bayes_tacit import Episodes, StepCost, load_example
from bayes_tacit.agents import Budget, History, Step, read_transcript
from bayes_tacit.agents.pages import episode_page
from bayes_tacit.agents.playing import Continuations, Players, collect
from bayes_tacit.data.costs import Outcomes
from bayes_tacit.data.counterfactuals import Counterfactuals
from bayes_tacit.data.visible import Visible
from bayes_tacit.decisions.selection import fixed_grid
from bayes_tacit.errors import InvalidDataError
from bayes_tacit.policies import (
    NEWTON,
    EvoRoute,
    FirstAlarm,
    PosteriorTacitSwitch,
    PrefixRouter,
    PureCheap,
    PureStrong,
    StepDeferral,
    TacitSwitch,
    TaskRouter,
    Trim,
    World,
)
from bayes_tacit.router import Router
from simulations import __main__ as program
from simulations.__main__ import main
from simulations.alfworld import (
    AlfworldEnvironment,
    CheapActor,
    ErrorProcess,
    Game,
    StrongActor,
    experiment,
    list_games,
    write_kitchens,
)
from simulations.alfworld.benchmark import DESCRIPTORS, DIAGNOSTICS, AlfworldExtractor
from simulations.alfworld.experiment import (
    BENCHMARK,
    CHEAP_GAMES,
    FOLDS,
    PAIR,
    alfworld_setup,
    compared_policies,
    learned_pair,
    run_experiment,
)
from simulations.alfworld.games import Splits
from simulations.alfworld.learned import LearnedActor, LearnedPair, Ranker
from simulations.played import experiment as experiment_module
from simulations.played.crossed import cross_validate, crossed_words
from simulations.played.experiment import check_played
from simulations.played.kept import DEVELOPMENT, HANDOFFS, MANIFEST, chosen_again
from simulations.played.needed import needed_handoffs
from simulations.played.page import Story, advice_table, write_results
from simulations.played.policies import BY_LIKELIHOOD, DUE, POSTERIOR, TACIT, is_family, recommended
from simulations.studies.tables import OTHER_TABLES
from simulations.tuned import TunedSwitch, learned_from

pytestmark = pytest.mark.filterwarnings("ignore::bayes_tacit.errors.TacitWarning")

N_FIT, N_SELECT, N_TEST, ACTIONS = 6, 2, 3, 10
MILD = ErrorProcess(skips_state=0.3, settles_for_one=0.2, overlooks=0.2, loses_composure=0.05)
PLAYERS = Players(CheapActor(7, MILD), StrongActor(7, overlooks=0.3), budget=Budget(ACTIONS))
SINGLE_STEPS = ("Step Deferral", "TRIM analogue")
COMMITTED = Path(__file__).parents[2] / "simulations" / "results" / "alfworld"
STORY = Story("alfworld", "alfworld --data path/to/alfworld", "calls of the 4B model")
SETTINGS = {"players": PLAYERS, "workers": 1, "standstill": 1}


def policies():
    alpha, coarser = fixed_grid(0.05, 0.5, n=10), fixed_grid(0.1, 0.4, n=2)
    return [
        PureCheap(),
        TaskRouter.alfworld(DESCRIPTORS),
        StepDeferral("uncertainty", average_steps=(2, 4), timing="proposal"),
        PrefixRouter(prefixes=(1, 2), n_candidates=5),
        Trim(unmarked="outcome", average_steps=(4, 6)),
        EvoRoute(limit=16, prices=(0.0,), n_candidates=9, start=False, cost=PLAYERS.cost),
        TacitSwitch(estimator=lambda _: fit_of_made_up_episodes(), candidates=alpha, name=TACIT),
        PosteriorTacitSwitch(posterior=fit_of_made_up_episodes().to_datatree(), candidates=coarser, name=POSTERIOR),
        PureStrong(),
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_kitchens(folder, "own", N_FIT + N_SELECT + N_TEST, seed=1)
    return folder


@pytest.fixture(scope="module")
def splits(data):
    from simulations.alfworld import list_games

    games = list_games("own", data)
    return Splits(games[:N_FIT], games[N_FIT:-N_TEST], games[-N_TEST:], [])


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("kept")


@pytest.fixture(scope="module")
def ran(splits, kept):
    return run_experiment(None, kept, splits=splits, policies=policies(), **SETTINGS)


def plain(game, decide, restart_at=None):
    """Play without the loop: `decide` says who acts from what happened so far and Cheap's proposal now."""
    calls = {"cheap": 0, "strong": 0}
    environment = opened(game.path)
    history = History(environment.reset())
    while len(history) < ACTIONS and not (history.steps and history.steps[-1].result.done):
        if restart_at is not None and len(history) == restart_at and calls["strong"] == 0:
            history = History(environment.reset())
            decide = lambda history, proposal: True  # noqa: ARG005, E731
        proposal = PLAYERS.cheap.act(history)
        takes_over = decide(history, proposal)
        agent = "strong" if takes_over else "cheap"
        if takes_over:
            calls["cheap"] += takes_over == "discards"
            proposal = PLAYERS.strong.act(history)
        calls[agent] += 1
        history = history.then(Step(agent, proposal, environment.step(proposal.action)))
    return int(history.steps[-1].result.success), calls["cheap"], calls["strong"]


@cache
def opened(path):
    return AlfworldEnvironment(path)


def expected_of(ran, name, row, game):
    """What a policy's own decision on the recorded episode gives when it is played without the loop."""
    fitted, setting = ran.comparison.fitted[name], ran.comparison.choices[name].point
    episodes = ran.test.episodes
    if name == "Step Deferral":
        level = setting["alpha"]
        return plain(game, lambda _, proposal: "discards" if -np.expm1(-proposal.nll) >= level else False)
    if name == "Prefix router":
        at = int(setting["k"]) if fitted.handoffs(episodes, setting)[row] >= 0 else None
        return plain(game, lambda *_: False, restart_at=at)
    if name == "TRIM analogue":
        return plain(game, lambda history, _: looks_wrong(history, fitted.router(setting)))
    handoff = int(fitted.handoffs(episodes, setting)[row])
    return plain(game, lambda history, _: handoff >= 0 and len(history) >= handoff)


def looks_wrong(history, router):
    """Return whether the latest step is Cheap's and looks wrong."""
    if not history.steps or history.steps[-1].agent == "strong":
        return False
    latest, extractor = history.steps[-1], AlfworldExtractor()
    found = extractor.diagnostics(History(history.first, history.steps[:-1]), latest.proposal, latest.result)
    features = extractor.features(history.first)
    known = [features[name] for name in router.feature_names] + [found[name] for name in router.diagnostic_names]
    return router.rule.wrong(np.array([known]))[0] >= router.alpha


def test_every_policy_was_played_as_a_plain_loop_plays_it(ran, splits):
    table = ran.episodes.set_index(["policy", "episode"])
    assert len(table) == len(policies()) * N_TEST
    for name in ran.comparison.fitted:
        for row, game in enumerate(splits.test):
            found = table.loc[name, game.id]
            success, cheap, strong = expected_of(ran, name, row, game)
            assert (int(found["success"]), found["cheap_calls"], found["strong_calls"]) == (success, cheap, strong)
            judged = (
                name == "Prefix router" and ran.test.episodes.n_steps[row] > ran.comparison.choices[name].point["k"]
            )
            assert found["one_off_calls"] == judged
            assert found["cost"] == cheap + 6.75 * strong + 1.75 * judged
    # There was something to compare: handoffs on the way, and deferred steps.
    handoffs = table.loc[[TACIT, POSTERIOR, "EvoRoute analogue"], "handoff_step"]
    assert handoffs.notna().groupby("policy").any().all()
    assert (table.loc[list(SINGLE_STEPS), ["cheap_calls", "strong_calls"]] > 0).all(axis=None)


def test_settings_are_chosen_on_what_every_handoff_gives(ran, tmp_path):
    full = Continuations(BENCHMARK, ran.pairs["select"], tmp_path, PLAYERS).counterfactuals()
    world = World(ran.development.episodes, full, PLAYERS.cost)
    for name, fitted in ran.comparison.fitted.items():
        if name not in SINGLE_STEPS:
            expected = fitted.operating_points(world)
            pd.testing.assert_frame_equal(fitted.operating_points(ran.development), expected)
            assert ran.comparison.choices[name].success == expected["success"][ran.comparison.choices[name].position]
    # What the teacher was not asked for, and marks are made of, is not there by chance.
    marked = ran.training.ids[ran.training.has_window].tolist()
    for pair in ran.pairs["fit"]:
        if pair.task.id in marked:
            row = ran.training.ids.tolist().index(pair.task.id)
            mark = int(ran.training.dataset["window_start"].values[row])
            assert Continuations(BENCHMARK, [pair], tmp_path, PLAYERS).at([[mark + 1]])[0][mark + 1].success
    assert marked


def test_the_table_is_that_of_the_played_episodes(ran):
    for row in ran.comparison.table.to_dict("records"):
        episodes = ran.episodes[ran.episodes["policy"] == row["policy"]]
        assert row["success"] == episodes["success"].mean()
        assert row["cost"] == pytest.approx(episodes["cost"].mean())
    assert ran.counts.sum().to_dict() == {"fit": N_FIT, "select": N_SELECT, "test": N_TEST}
    assert set(ran.training.ids[ran.training.has_window]) <= set(ran.training.ids[ran.training.outcomes == "01"])


def test_episodes_that_differ_from_the_tables_stop_the_experiment(ran, splits, kept, monkeypatch):
    outcomes = ran.comparison.outcomes[TACIT]
    values = [outcomes.success, outcomes.cost, outcomes.cheap_calls, outcomes.strong_calls]
    for at in range(4):
        wrong = [
            np.where(np.arange(N_TEST) == 1, 1 - v if at == 0 else v + 1, v) if at == n else v
            for n, v in enumerate(values)
        ]
        with pytest.raises(InvalidDataError, match="what the table of continuations says"):
            check_played(TACIT, [game.id for game in splits.test], Outcomes(*wrong), outcomes)
    monkeypatch.setattr(experiment_module, "outcomes_of", lambda _: Outcomes(*(np.array(v) * 0 for v in values)))
    settings = {"splits": splits, "policies": policies(), **SETTINGS}
    with pytest.raises(InvalidDataError, match=r"expected .* what the table of continuations says"):
        run_experiment(None, kept, **settings)
    assert run_experiment(None, kept, repeatable=False, **settings).comparison.table["cost"].sum() == 0


class _Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.text, self.tags = [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def test_results_say_what_was_played_and_the_choice_can_be_made_again_from_them(ran, tmp_path):
    write_results(ran, tmp_path, STORY)
    page = (tmp_path / "README.md").read_text()
    assert page.startswith(OTHER_TABLES)
    for row in ran.comparison.table.to_dict("records"):
        assert f"{round(row['success'] * N_TEST)}/{N_TEST} ({100 * row['success']:.1f}%) | {row['cost']:.2f}" in page
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "episodes.parquet"), ran.episodes)
    assert all((tmp_path / f"{name}.png").stat().st_size > 10_000 for name in ("curves", "grid"))
    assert Episodes.read(tmp_path / "training.nc").fingerprint() == ran.training.fingerprint()
    for name, weight in zip(DIAGNOSTICS, fit_of_made_up_episodes().w, strict=True):
        assert f"| `{name}` | {weight:.2f} | {weight:.2f} |" in page
    pages = sorted(path.stem for path in tmp_path.glob("*.html"))
    assert pages
    assert all(f"({name}.html)" in page for name in pages)
    assert all(read_transcript(tmp_path / f"{name}.jsonl") in ran.played[POSTERIOR] for name in pages)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    assert manifest["tasks"]["test"] == [pair.task.id for pair in ran.pairs["test"]]
    again = chosen_again(tmp_path)
    for name, choice in ran.comparison.choices.items():
        assert (again[name]["success"], again[name]["cost"]) == pytest.approx((choice.success, choice.cost))
        assert np.isnan(again[name]["alpha"]) or again[name]["alpha"] == choice.point["alpha"]
        router = Router.from_json(json.dumps(manifest["routers"][name]))
        assert router == ran.comparison.fitted[name].router(choice.point)
    write_results(ran, tmp_path, STORY)
    assert (tmp_path / "README.md").read_text() == page


def test_a_page_shows_every_step_and_its_score(ran):
    transcript = max(ran.played[POSTERIOR], key=lambda one: len(one.checkpoints))
    page = episode_page(transcript, "A <note>.")
    cells = _Cells()
    cells.feed(page)
    text = " ".join(cells.text)
    assert "A <note>." in text
    for step in transcript.steps:
        assert step.proposal.action in text
        assert step.result.observation.text.split("\n")[0] in text
    for step in transcript.checkpoints:
        assert f"{step.choice.facts['score']:.2f}" in text
    bars = [attrs for tag, attrs in cells.tags if tag == "svg" and attrs.get("aria-label", "").startswith("q = ")]
    assert len(bars) == len(transcript.checkpoints)
    assert "http" not in page
    assert "<script" not in page
    assert "q = " not in episode_page(ran.played["Pure Strong"][0])


def test_the_committed_choices_can_be_made_again_without_the_games():
    training, development = (Episodes.read(COMMITTED / name) for name in ("training.nc", DEVELOPMENT))
    manifest = json.loads((COMMITTED / MANIFEST).read_text())
    assert training.ids.tolist() == manifest["tasks"]["fit"]
    assert development.ids.tolist() == manifest["tasks"]["select"]
    world = World(development, Counterfactuals.read(COMMITTED / HANDOFFS), PLAYERS.cost)
    page = (COMMITTED / "README.md").read_text()
    tried = [policy for policy in compared_policies() if policy.name in manifest["routers"]]
    assert len(tried) > 5
    for policy in tried:
        fitted = policy.fit(training)
        choice = fitted.choose(world, manifest["cap"])
        chosen = f"{fitted.in_words(choice)} | {100 * choice.success:.1f}% at {choice.cost:.1f} |"
        assert f"| {policy.name} | {chosen}" in page
        frozen = Router.from_json(json.dumps(manifest["routers"][policy.name]))
        assert (frozen.handoffs(development).values == fitted.handoffs(development, choice.point)).all()


def test_the_runner_names_what_is_missing(tmp_path, capsys, monkeypatch):
    for variable in ("ALFWORLD_DATA", "DABENCH_DATA"):
        monkeypatch.delenv(variable, raising=False)
    assert main(["alfworld", "--out", str(tmp_path)]) == 2
    assert "ALFWORLD_DATA" in capsys.readouterr().err
    assert main(["alfworld", "--out", str(tmp_path), "--replicates", "3"]) == 2
    assert "no --replicates with alfworld" in capsys.readouterr().err
    assert main(["alfworld", "--out", str(tmp_path), "--data", str(tmp_path / "nowhere")]) == 2
    assert "no such folder" in capsys.readouterr().err
    monkeypatch.setattr(program, "STUDIES", {})
    assert main(["all", "--out", str(tmp_path)]) == 0
    assert "alfworld: left out" in capsys.readouterr().err


def test_the_splits_of_the_official_games_are_disjoint():
    data = os.environ.get("ALFWORLD_DATA")
    if not data or not (Path(data) / "json_2.1.1" / "valid_train").is_dir():
        pytest.skip("runs with ALFWORLD_DATA=<folder of the official games>")
    from simulations.alfworld.games import make_splits

    splits = make_splits(data)
    groups = [splits.fit, splits.select, splits.test, splits.knowledge]
    assert [len(group) for group in groups] == [100, 40, 134, 66]
    assert len({game.id for group in groups for game in group}) == 340


N, PARTS = 11, 3
LONGER = Players(CheapActor(7, MILD), StrongActor(7, overlooks=0.3), budget=Budget(18))


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    data, home = tmp_path_factory.mktemp("data"), tmp_path_factory.mktemp("home")
    write_kitchens(data, "own", N, seed=1)
    pairs = collect(BENCHMARK, home / "rollouts", LONGER, tasks=list_games("own", data))
    return pairs, alfworld_setup(home, LONGER, standstill=1)


class Spying:
    """Fits nothing, and remembers what it was to be fitted on."""

    def __init__(self):
        self.seen = []

    def __call__(self, episodes):
        self.seen.append(episodes)
        return fit_of_made_up_episodes()


@pytest.fixture(scope="module")
def found(played):
    spy = Spying()

    def policies():
        alarm = FirstAlarm("repeated_action")
        deferral = StepDeferral("uncertainty", average_steps=(0, 2, 12), timing="proposal")
        tacit = TacitSwitch(estimator=spy, candidates=fixed_grid(0.05, 0.5, n=10), name=TACIT)
        trim = Trim(unmarked="outcome", average_steps=(1, 2))
        dear = StepDeferral("uncertainty", average_steps=(1e6,), timing="proposal", name="Always deferring")
        return [PureCheap(), alarm, deferral, trim, dear, tacit, PureStrong()]

    return cross_validate(*played, policies, parts=PARTS), spy


def test_every_game_is_judged_once_by_what_was_fitted_without_it(played, found):
    pairs, _ = played
    result, spy = found
    ids = [pair.task.id for pair in pairs]
    assert len(spy.seen) == PARTS
    trained = [set(one.ids.tolist()) for one in spy.seen]
    order = np.random.default_rng(2027).permutation(N)
    for part, some in enumerate(trained):
        held_out = {ids[at] for at in order[part::PARTS]}
        assert not some & held_out
        # Settings are chosen on three tenths of the other games, which are not fitted on.
        assert len(some) == N - len(held_out) - round(0.3 * (N - len(held_out)))
    for name, agent in (("Pure Cheap", "cheap"), ("Pure Strong", "strong")):
        ends = [getattr(pair, agent).end for pair in pairs]
        assert result.outcomes[name].success.tolist() == [end.success for end in ends]
        assert result.outcomes[name].cost.tolist() == [end.cost for end in ends]
    assert not np.isnan(result.outcomes[TACIT].cost).any()
    assert 0 < result.outcomes["TRIM analogue"].strong_calls.sum() < result.outcomes["Pure Strong"].strong_calls.sum()


def test_where_nothing_is_within_the_cap_cheap_plays_alone(found):
    result, _ = found
    assert result.beyond == ("Always deferring",) * PARTS
    assert result.outcomes["Always deferring"].cost.tolist() == result.outcomes["Pure Cheap"].cost.tolist()
    assert f"Always deferring ({PARTS})" in "".join(crossed_words(result))


def test_marks_are_complete_ranges(found):
    result, spy = found
    start, end = (
        np.concatenate([one.dataset[name].values[one.has_window] for one in spy.seen])
        for name in ("window_start", "window_end")
    )
    assert (end > start).any()
    assert 0 < result.wide <= result.marked <= result.failed


def test_a_recommendation_is_made_of_the_families_alone():
    parts = load_example().split({"training": 0.5, "development": 0.1, "other": 0.4})
    steps = parts["development"].n_steps
    world = World.from_restarts(parts["development"], strong_steps=steps, cost=StepCost(cheap=1, strong=3))
    alarm = FirstAlarm("uncertainty", handoff="restart")
    tacit = TacitSwitch(options={"restarts": 1}, handoff="restart", name=POSTERIOR)
    fitted = {policy.name: policy.fit(parts["training"]) for policy in (PureCheap(), alarm, tacit, PureStrong())}
    advice = recommended(fitted, world, 40)
    assert list(advice.table["policy"]) + list(advice.left_out) == ["Pure Cheap", "First Alarm", "Pure Strong"]
    assert f"| **{advice.name}** |" in advice_table(advice)
    assert recommended(fitted, world.take(np.arange(5)), 40) is None
    names = [policy.name for policy in compared_policies()]
    assert {name for name in names if not is_family(name)} >= {DUE, BY_LIKELIHOOD, POSTERIOR}
    assert {"Count", "Landmark", "Cascade", "Tuned switch", TACIT} <= {name for name in names if is_family(name)}


def test_a_policy_that_searches_needs_every_handoff(played):
    pairs, setup = played
    episodes = setup.episodes(pairs)
    alarm = FirstAlarm("repeated_action").fit(episodes)
    some = needed_handoffs([alarm], episodes)
    lengths = episodes.n_steps.tolist()
    assert any(len(steps) < length for steps, length in zip(some, lengths, strict=True))
    visible = Visible.of(episodes)
    cheap = NEWTON.fit(visible.feature_names, visible.features, episodes.dataset["cheap_success"].values)
    learned = learned_from({1.0: fit_of_made_up_episodes()}, cheap, visible)
    searching = TunedSwitch(("memory",), lambda _: learned).fit(episodes)
    every = needed_handoffs([alarm, searching], episodes)
    assert [len(steps) for steps in every] == lengths


IDS = [f"own/task-{number}/trial_1" for number in range(12)]
GAMES = [Game(name, Path("nowhere")) for name in IDS]


def pair(seed=0, ids=IDS, folds=FOLDS, cheap_games=CHEAP_GAMES, sharpness=1.0):
    """A pair whose rankers were never trained: what it is taken for depends on the rest."""
    many = tuple(tuple(name for at, name in enumerate(ids) if at % folds != fold) for fold in range(folds))
    actors = (
        LearnedActor(f"learned-{agent}", (Ranker(size, {"go": 1.0}),) * folds, seed, sharpness)
        for agent, size in (("cheap", "small"), ("strong", "large"))
    )
    return LearnedPair(*actors, tuple(games[:cheap_games] for games in many), many)


@pytest.fixture(autouse=True)
def nothing_is_trained(monkeypatch):
    monkeypatch.setattr(experiment, "work_through", None)


def test_a_kept_pair_is_taken_for_the_same_games_and_seed(tmp_path):
    kept = pair(seed=7)
    kept.write(tmp_path / PAIR)
    for games in (GAMES, GAMES[::-1]):
        assert repr(learned_pair(games, tmp_path, seed=7).strong) == repr(kept.strong)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        (pair(seed=0), r"seed is \[0\]; expected \[7\], as asked for"),
        (pair(7, folds=4), r"number of folds is \[4\]; expected \[5\]"),
        (pair(7, cheap_games=3), r"number of games that Cheap learns from is \[3\]; expected \[4\]"),
        (pair(7, sharpness=2.0), r"sharpness is \[2.0\]; expected \[1.0\]"),
        (pair(7, IDS[:11]), "games is .*give another folder with --kept"),
        (pair(7, [*IDS, "own/z"]), "games is .*give another folder with --kept"),
    ],
)
def test_a_kept_pair_of_another_seed_or_of_other_games_is_refused(kept, said, tmp_path):
    kept.write(tmp_path / PAIR)
    before = (tmp_path / PAIR).read_bytes()
    with pytest.raises(InvalidDataError, match=said):
        learned_pair(GAMES, tmp_path, seed=7)
    assert (tmp_path / PAIR).read_bytes() == before
