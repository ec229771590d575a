"""ALFWorld: its games on the real engine, the paper's features and diagnostics, and a scripted pair of actors.

Importing this package needs neither `alfworld` nor `textworld`; opening a game does (dependency group `benchmarks`).
"""

from models.alfworld import DIAGNOSTICS, FEATURES
from simulations.alfworld.benchmark import Alfworld, benchmark
from simulations.alfworld.cheap import CheapActor, ErrorProcess
from simulations.alfworld.diagnostics import AlfworldExtractor
from simulations.alfworld.environment import AlfworldEnvironment
from simulations.alfworld.features import DESCRIPTORS, router_descriptors, task_features
from simulations.alfworld.games import Game, list_games, split_games
from simulations.alfworld.kitchen import KITCHEN, KITCHEN_TASKS, write_kitchen, write_kitchens
from simulations.alfworld.strong import StrongActor

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
