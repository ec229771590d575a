"""Episodes that are played: the permanent-handoff loop, its environments and actors, transcripts, and the teacher.

`run_episode` plays one episode under a controller; `agents.playing` plays many tasks of a benchmark and keeps them.
The actor behind an OpenAI-compatible endpoint is in `agents.endpoint` and needs the extra `agents`; the offline teacher
is in `agents.teacher`.
"""

from bayes_tacit.agents.accounts import Budget
from bayes_tacit.agents.errors import ActorError, BrokenTranscriptError, ReplayError, TornTranscriptError
from bayes_tacit.agents.loop import run_episode
from bayes_tacit.agents.protocols import (
    Actor,
    Environment,
    Extractor,
    History,
    Moment,
    Observation,
    Proposal,
    Step,
    StepResult,
)
from bayes_tacit.agents.retry import Retry
from bayes_tacit.agents.transcript import (
    Transcript,
    episodes_from_transcripts,
    is_finished,
    read_pairs,
    read_transcript,
    read_transcripts,
    write_transcript,
)
from bayes_tacit.router.control import (
    CascadeController,
    Checkpoint,
    Choice,
    Controller,
    CountController,
    FirstAlarmController,
    ForcedHandoffController,
    LandmarkController,
    Pilot,
    PrefixRouterController,
    PureController,
    RouterController,
    StepDeferralController,
    TaskRouterController,
)

__all__ = [
    "Actor",
    "ActorError",
    "BrokenTranscriptError",
    "Budget",
    "CascadeController",
    "Checkpoint",
    "Choice",
    "Controller",
    "CountController",
    "Environment",
    "Extractor",
    "FirstAlarmController",
    "ForcedHandoffController",
    "History",
    "LandmarkController",
    "Moment",
    "Observation",
    "Pilot",
    "PrefixRouterController",
    "Proposal",
    "PureController",
    "ReplayError",
    "Retry",
    "RouterController",
    "Step",
    "StepDeferralController",
    "StepResult",
    "TaskRouterController",
    "TornTranscriptError",
    "Transcript",
    "episodes_from_transcripts",
    "is_finished",
    "read_pairs",
    "read_transcript",
    "read_transcripts",
    "run_episode",
    "write_transcript",
]
