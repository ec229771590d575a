"""The code that every trick can use."""

from __future__ import annotations

from pathlib import Path

PREPARATION = Path(__file__).with_name("at_hand.py").read_text(encoding="utf-8")
