"""Readers of the formats that logs come in, one file each."""

from __future__ import annotations

from bayes_tacit.logs.readers import atif, gateway, generic, inspect, intercode, mini_swe_agent, swe_agent, tau_bench
from bayes_tacit.logs.readers.base import Reader

_MODULES: tuple[Reader, ...] = (generic, intercode, tau_bench, atif, inspect, mini_swe_agent, swe_agent, gateway)

READERS: dict[str, Reader] = {reader.NAME: reader for reader in _MODULES}
"""The readers by name, in the order in which they are asked."""
