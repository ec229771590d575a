"""Episodes that are played: the permanent-handoff loop, its environments and actors, transcripts, and the teacher.

`run_episode` plays one episode under a router; `agents.playing` plays many tasks of a benchmark and keeps them. The
actor behind an OpenAI-compatible endpoint is in `agents.endpoint` and needs the extra `agents`; the offline teacher is
in `agents.teacher`.
"""

from bayes_tacit.agents.loop import Budget, Retry, run_episode
from bayes_tacit.agents.pairs import episodes_from_transcripts, read_pairs
from bayes_tacit.agents.protocols import (
    Actor,
    ActorError,
    BrokenTranscriptError,
    Environment,
    Extractor,
    History,
    Observation,
    Proposal,
    ReplayError,
    Step,
    StepResult,
    TornTranscriptError,
)
from bayes_tacit.agents.transcript import (
    RouterCall,
    Transcript,
    read_transcript,
    read_transcripts,
    write_transcript,
)

__all__ = [
    "Actor",
    "ActorError",
    "BrokenTranscriptError",
    "Budget",
    "Environment",
    "Extractor",
    "History",
    "Observation",
    "Proposal",
    "ReplayError",
    "Retry",
    "RouterCall",
    "Step",
    "StepResult",
    "TornTranscriptError",
    "Transcript",
    "episodes_from_transcripts",
    "read_pairs",
    "read_transcript",
    "read_transcripts",
    "run_episode",
    "write_transcript",
]
