"""Playing many tasks: paired rollouts, every continuation of them, and policies; each is played once and kept.

A `Benchmark` says what the tasks are and how each is played; a `Suite` is one as commands play it.
"""

from bayes_tacit.agents.playing.benchmark import Benchmark, Suite, Task, find_suite
from bayes_tacit.agents.playing.collect import Pair, Players, collect, collected
from bayes_tacit.agents.playing.continuations import Continuations, Continued
from bayes_tacit.agents.playing.ownership import FolderInUseError
from bayes_tacit.agents.playing.policies import Entry, outcomes_of, play_policies
from bayes_tacit.agents.playing.progress import shown
from bayes_tacit.agents.playing.recorded import RecordedActor
from bayes_tacit.agents.playing.workers import Progress

__all__ = [
    "Benchmark",
    "Continuations",
    "Continued",
    "Entry",
    "FolderInUseError",
    "Pair",
    "Players",
    "Progress",
    "RecordedActor",
    "Suite",
    "Task",
    "collect",
    "collected",
    "find_suite",
    "outcomes_of",
    "play_policies",
    "shown",
]
