"""What happened in an episode, line by line: its record, its file, and the way back to `Episodes`."""

from bayes_tacit.agents.transcript.pairs import episodes_from_transcripts, read_pairs
from bayes_tacit.agents.transcript.record import ChoiceRecord, End, Header, ResetRecord, Status, StepRecord, Transcript
from bayes_tacit.agents.transcript.storage import (
    TranscriptWriter,
    is_finished,
    read_transcript,
    read_transcripts,
    write_transcript,
)

__all__ = [
    "ChoiceRecord",
    "End",
    "Header",
    "ResetRecord",
    "Status",
    "StepRecord",
    "Transcript",
    "TranscriptWriter",
    "episodes_from_transcripts",
    "is_finished",
    "read_pairs",
    "read_transcript",
    "read_transcripts",
    "write_transcript",
]
