"""ALFWorld: its games on the real engine, the paper's features and diagnostics, and a scripted pair of actors.

Importing this package needs neither `alfworld` nor `textworld`; opening a game does (the extra `agents`).
"""

from bayes_tacit.agents.alfworld.benchmark import Alfworld
from bayes_tacit.agents.alfworld.cheap import CheapActor, ErrorProcess
from bayes_tacit.agents.alfworld.diagnostics import DIAGNOSTICS, AlfworldExtractor
from bayes_tacit.agents.alfworld.environment import AlfworldEnvironment
from bayes_tacit.agents.alfworld.features import DESCRIPTORS, FEATURES, router_descriptors, task_features
from bayes_tacit.agents.alfworld.games import Game, list_games, split_games
from bayes_tacit.agents.alfworld.kitchen import KITCHEN, KITCHEN_TASKS, write_kitchen, write_kitchens
from bayes_tacit.agents.alfworld.strong import StrongActor

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
    "list_games",
    "router_descriptors",
    "split_games",
    "task_features",
    "write_kitchen",
    "write_kitchens",
]
