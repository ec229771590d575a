"""The numbers that are searched, where the search begins, and what is tried of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from bayes_tacit.policies.base import Setting, number_in

Numbers = Mapping[str, float]

PLAIN: Numbers = MappingProxyType(
    {
        "memory": 1.0,
        "clock": 0.0,
        "pace": 0.0,
        "incidence": 1.0,
        "location": 1.0,
        "cheap": 0.0,
        "start_weight": 1.0,
        "start_level": 1.0,
    }
)
"""TACIT-Switch as the paper has it: from here the search goes on.

============  =======================================================================================
memory        rho: what is left of a diagnostic's leaky sum after a step
clock         share of the weight that time alone has
pace          g: the threshold at step t is alpha exp(-g t)
incidence     by what gamma is multiplied: how much pi differs between tasks
location      by what beta is multiplied: how much the location differs between tasks
cheap         what a task on which Cheap is better by one standard deviation adds to the location, in s
start_weight  c: Strong has the task from the start where c pi(x) - P(Cheap succeeds | x) is high
start_level   the share of development tasks that are below the threshold of the start; 1 for no start
============  =======================================================================================
"""

TRIED: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        "memory": (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        "pace": (-0.8, -0.6, -0.4, -0.3, -0.2, -0.1, -0.05, 0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6),
        "start_level": (0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.98, 1.0),
        "location": (-1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
        "incidence": (0.0, 0.5, 1.0, 1.5, 2.0, 3.0),
        "cheap": (-1.0, -0.6, -0.3, -0.1, 0.0, 0.1, 0.3, 0.6, 1.0),
        "clock": (0.0, 0.01, 0.03, 0.06, 0.1, 0.2, 0.4),
        "start_weight": (0.0, 0.5, 1.0, 2.0),
    }
)
"""Values of each number, in the order in which they are searched."""

EVERY = tuple(TRIED)

CAPS = (0.9, 0.95, 1.0, 1.05, 1.1)
"""Shares of the cap over which success is averaged: what is good at one budget by luck alone is not good around it."""


def numbers_of(setting: Setting) -> Numbers:
    """Give the numbers of a setting; those that it does not have are TACIT-Switch's own.

    Examples
    --------
    >>> numbers_of({"alpha": 0.3, "memory": 0.5})["memory"], numbers_of({"alpha": 0.3})["memory"]
    (0.5, 1.0)
    """
    return {name: number_in(setting, name) if name in setting else plain for name, plain in PLAIN.items()}


def start_of(setting: Setting) -> float:
    """Give the threshold of the start; infinite where the setting has none."""
    return number_in(setting, "start") if "start" in setting else np.inf
