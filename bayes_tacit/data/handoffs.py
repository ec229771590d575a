"""What a handoff does with the task: Strong goes on from Cheap's state, or begins anew."""

from __future__ import annotations

from typing import Literal, get_args

Handoff = Literal["resume", "restart"]
"""Strong goes on where Cheap stands, as in the paper, or the environment is reset and Strong begins the task anew."""

HANDOFFS: tuple[Handoff, ...] = get_args(Handoff)

DEFAULT_HANDOFF: Handoff = "resume"
