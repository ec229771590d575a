"""What the readers of routers say of a conversation, turn by turn, as its messages come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayes_tacit.errors import InvalidDataError
from bayes_tacit.logs.messages import Message
from bayes_tacit.logs.reader import DIAGNOSTICS, FEATURES, Read, Reader, texts_of

Readers = Mapping[str, Reader]
"""Readers of words, by what their router is known by here (`Checkpoints.key`)."""

Said = dict[str, list[list[float]]]
"""By reader, the features of the task, then the diagnostics of each turn, in the order of their names."""


class Words:
    """Reads the words of a conversation for some readers; of what was said only the latest turn is held, in memory.

    Parameters
    ----------
    readers
        The readers.

    Examples
    --------
    >>> words = Words({"r": Reader.blank()})
    >>> words.extend([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}])
    >>> words.said(bytes([0]))["r"]
    [[0.0, 0.0], [0.5, 0.0, 0.5, 0.0]]
    """

    def __init__(self, readers: Readers) -> None:
        self.readers = readers
        self._prompt: list[Message] = []
        self._turns: list[list[Message]] = []
        self._reads: dict[str, Read] = {}
        self._rows: Said = {}
        self._began = False

    def extend(self, messages: Sequence[Message]) -> None:
        """Take messages that have come since."""
        for message in messages if self.readers else ():
            if message.get("role") == "assistant":
                self._turns.append([message])
            else:
                (self._turns[-1] if self._turns else self._prompt).append(message)

    def said(self, flags: bytes | bytearray) -> Said:
        """Return what the readers say of the conversation so far, given the signs of all of its turns."""
        if not self.readers:
            return {}
        if not self._began:
            prompt = _texts(self._prompt)[0]
            for key, reader in self.readers.items():
                read = self._reads[key] = reader.start(prompt)
                self._rows[key] = [[read.features()[name] for name in FEATURES]]
            if self._turns:
                self._began = True
                self._prompt.clear()
        found = {}
        first = len(flags) - len(self._turns)
        for key, reader in self.readers.items():
            rows, read = self._rows[key], self._reads[key]
            for place, turn in enumerate(self._turns):
                said, answered = _texts(turn)[1][0]
                before, read = read, reader.read(read, said, answered, flags[first + place])
                row = [read.diagnostics()[name] for name in DIAGNOSTICS]
                if place == len(self._turns) - 1:
                    # It may have more answers; what was read before it stays.
                    self._reads[key], found[key] = before, [*rows, row]
                else:
                    rows.append(row)
            found.setdefault(key, list(rows))
        del self._turns[:-1]
        return found


def _texts(messages: Sequence[Message]) -> tuple[str, list[tuple[str, str]]]:
    """Return the texts of messages; what cannot be read says nothing."""
    try:
        return texts_of(messages)
    except (InvalidDataError, AttributeError, TypeError):
        return "", [("", "")]
