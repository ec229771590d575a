"""ALFWorld: its games on the real engine, the paper's features and diagnostics, and a scripted pair of actors.

Importing this package needs neither `alfworld` nor `textworld`; opening a game does (dependency group `benchmarks`).
"""

from models.alfworld import DIAGNOSTICS, FEATURES
from simulations.alfworld.actors import CheapActor, ErrorProcess, StrongActor
from simulations.alfworld.benchmark import (
    DESCRIPTORS,
    Alfworld,
    AlfworldEnvironment,
    AlfworldExtractor,
    benchmark,
    router_descriptors,
    task_features,
)
from simulations.alfworld.games import (
    KITCHEN,
    KITCHEN_TASKS,
    Game,
    list_games,
    split_games,
    write_kitchen,
    write_kitchens,
)

__all__ = [
    "DESCRIPTORS",
    "DIAGNOSTICS",
    "FEATURES",
    "KITCHEN",
    "KITCHEN_TASKS",
    "Alfworld",
    "AlfworldEnvironment",
    "AlfworldExtractor",
    "CheapActor",
    "ErrorProcess",
    "Game",
    "StrongActor",
    "benchmark",
    "list_games",
    "router_descriptors",
    "split_games",
    "task_features",
    "write_kitchen",
    "write_kitchens",
]
