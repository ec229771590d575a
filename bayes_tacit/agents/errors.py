"""What can go wrong while an episode is played."""

from __future__ import annotations

from bayes_tacit.errors import FileFormatError, TacitError


class ActorError(TacitError, RuntimeError):
    """An actor gave no answer.

    Parameters
    ----------
    message
        What happened.
    transient
        Whether asking again may help.
    retry_after
        Seconds to wait before that, if the other side said so.
    """

    def __init__(self, message: str, *, transient: bool = False, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.retry_after = retry_after


class ReplayError(TacitError, RuntimeError):
    """An environment did not answer as it did when the transcript was recorded, or the transcript has no such step."""


class TornTranscriptError(TacitError, ValueError):
    """A transcript has no end: the program that wrote it was stopped."""


class BrokenTranscriptError(FileFormatError):
    """A file in the place of a transcript is none, or is damaged; the message has its line."""
