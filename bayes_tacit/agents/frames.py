"""A transcript as a table: one row for each call that was paid."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayes_tacit.agents.transcript.record import ChoiceRecord, StepRecord, Transcript
from bayes_tacit.errors import InvalidDataError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["transcript_frame"]

COLUMNS = ("run", "step", "agent", "action", "executed", "observation", "valid", "nll", "cost")


def transcript_frame(transcript: Transcript) -> pd.DataFrame:
    """Give the calls of an episode in order.

    ==================  ================================================================================================
    column              what it is
    ==================  ================================================================================================
    `run`, `step`       how often the environment was reset before, and how many actions were executed since
    `agent`             "cheap" or "strong"; "one-off" for calls that are no steps, such as that of a value head
    `action`            what was proposed
    `executed`          whether it was done; a discarded proposal was not
    `observation`       what was seen then; empty where nothing was done
    `valid`             whether the environment understood the action; missing where nothing was done
    `nll`               negative log-likelihood of the action; missing where it is not known
    `cost`              what the call added: the column's sum is the cost of the episode
    each diagnostic     of Cheap's checkpoint; missing elsewhere
    each reason         what the controller recorded there, such as `score`, `lower`, `upper` and `alpha`
    ==================  ================================================================================================

    Raises
    ------
    InvalidDataError
        If a diagnostic has the name of another column.

    Examples
    --------
    >>> from bayes_tacit.agents import Observation, Proposal, PureController, StepResult, run_episode
    >>> class Door:
    ...     def reset(self):
    ...         return Observation("A door.", ("open", "wait"), task="open the door")
    ...     def step(self, action):
    ...         return StepResult(Observation(f"You {action}."), done=action == "open", success=action == "open")
    >>> class Opener:
    ...     name = "opener"
    ...     def act(self, history):
    ...         return Proposal("open" if len(history) == 1 else "wait")
    >>> transcript = run_episode(Door(), None, Opener(), PureController("strong"), episode="door")
    >>> transcript_frame(transcript)[["step", "agent", "action", "observation", "cost"]]
       step   agent action observation  cost
    0     0  strong   wait   You wait.   3.0
    1     1  strong   open   You open.   3.0
    """
    import pandas as pd

    rows = []
    for record in transcript.records:
        match record:
            case StepRecord():
                rows.append(_call(record, transcript.episode))
            case ChoiceRecord(choice=choice) if choice.one_off_calls:
                known = {"run": record.run, "step": record.step, "agent": "one-off", "action": "", "executed": False}
                rows.append({**choice.facts, **known, "observation": "", "cost": record.cost})
    found = pd.DataFrame(rows)
    others = [str(name) for name in found if name not in COLUMNS]
    return found.reindex(columns=[*COLUMNS, *others])


def _call(record: StepRecord, episode: str) -> Mapping[str, Any]:
    result, facts = record.result, {} if record.choice is None else dict(record.choice.facts)
    diagnostics = dict(record.diagnostics or {})
    taken = [name for name in diagnostics if name in {*COLUMNS, *facts}]
    if taken:
        raise InvalidDataError(
            "another name: a column of the table is called so", episode=episode, field="diagnostics", value=taken[0]
        )
    return {
        **diagnostics,
        **facts,
        "run": record.run,
        "step": record.step,
        "agent": record.agent,
        "action": record.proposal.action,
        "executed": record.executed,
        "observation": "" if result is None else result.observation.text,
        "valid": None if result is None else result.valid,
        "nll": record.proposal.nll,
        "cost": record.cost,
    }
