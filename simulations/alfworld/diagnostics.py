"""What goes wrong at a step of Cheap: five numbers in [0, 1], each 0 where nothing is wrong.

The paper names them and does not define them further; the definitions here are functions of the visible history alone.
Where an action was not executed yet (timing "proposal"), what depends on its result is judged by the action alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from bayes_tacit.agents.protocols import History, Observation, Proposal, StepResult
from bayes_tacit.errors import InvalidDataError
from models.alfworld import DIAGNOSTICS, FEATURES
from simulations.alfworld.features import task_features
from simulations.alfworld.text import NOTHING_HAPPENS

CYCLE_LENGTHS = (2, 3)


class AlfworldExtractor:
    """Gives the twelve task features and the five diagnostics to the loop.

    Examples
    --------
    >>> AlfworldExtractor().diagnostic_names
    ('repeated_action', 'short_cycle', 'uncertainty', 'invalid_action', 'unchanged_observation')
    """

    feature_names: tuple[str, ...] = FEATURES
    diagnostic_names = DIAGNOSTICS

    def features(self, first: Observation) -> Mapping[str, float]:
        """Give the twelve task features."""
        return task_features(first)

    def diagnostics(self, history: History, proposal: Proposal, result: StepResult | None) -> Mapping[str, float]:
        """Give the five diagnostics of one step."""
        return {
            "repeated_action": repeated_action(history, proposal, result),
            "short_cycle": short_cycle(history, proposal),
            "uncertainty": uncertainty(proposal.nll),
            "invalid_action": invalid_action(history, proposal, result),
            "unchanged_observation": unchanged_observation(history, result),
        }


def repeated_action(history: History, proposal: Proposal, result: StepResult | None) -> float:
    """Tell whether the same action was taken before and got the same answer, so that it told nothing new.

    Without a result: whether it is the action taken just before.
    """
    if result is None:
        return float(history.actions[-1:] == (proposal.action,))
    earlier = (step for step in history.steps if step.proposal.action == proposal.action)
    return float(any(step.result.observation.text == result.observation.text for step in earlier))


def short_cycle(history: History, proposal: Proposal) -> float:
    """Tell whether the last two or three actions, this one included, are those before them over again.

    One action repeated is not a cycle: that is `repeated_action`.
    """
    actions = (*history.actions, proposal.action)
    for length in CYCLE_LENGTHS:
        last = actions[-length:]
        if len(actions) >= 2 * length and len(set(last)) > 1 and last == actions[-2 * length : -length]:
            return 1.0
    return 0.0


def uncertainty(nll: float | None) -> float:
    r"""Give :math:`1 - \exp(-\mathrm{NLL})` of the chosen action; 0 where the likelihood is not known.

    Examples
    --------
    >>> uncertainty(None), round(uncertainty(math.log(4)), 12)
    (0.0, 0.75)
    """
    if nll is None:
        return 0.0
    if not nll >= 0:
        raise InvalidDataError("a number >= 0, or None", field="nll", value=nll)
    return -math.expm1(-nll)


def invalid_action(history: History, proposal: Proposal, result: StepResult | None) -> float:
    """Tell whether the answer was unusable, so that a fallback was put in its place, or cannot be done here."""
    admissible = history.observation.admissible
    impossible = admissible is not None and proposal.action not in admissible
    refused = result is not None and not result.valid
    return float(proposal.fallback or impossible or refused)


def unchanged_observation(history: History, result: StepResult | None) -> float:
    """Tell whether an action without reward left the observation as it was, or nothing happened at all."""
    if result is None or result.reward != 0:
        return 0.0
    text = result.observation.text
    return float(text in (history.observation.text, NOTHING_HAPPENS))
