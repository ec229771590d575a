"""InfiAgent-DABench: its questions, a tool environment for them, the paper's features and diagnostics, the checker."""

from bayes_tacit.agents.dabench.answers import extract_answers, is_correct
from bayes_tacit.agents.dabench.benchmark import DABench
from bayes_tacit.agents.dabench.environment import ToolEnvironment, dabench_prompt
from bayes_tacit.agents.dabench.extractor import DESCRIPTORS, DIAGNOSTICS, FEATURES, DABenchExtractor
from bayes_tacit.agents.dabench.questions import Question, read_questions
from bayes_tacit.agents.dabench.replies import Reply, read_reply
from bayes_tacit.agents.dabench.sandbox import (
    Limits,
    Run,
    SandboxError,
    check_walls,
    run_code,
    standing_walls,
    wall_builder,
)

__all__ = [
    "DESCRIPTORS",
    "DIAGNOSTICS",
    "FEATURES",
    "DABench",
    "DABenchExtractor",
    "Limits",
    "Question",
    "Reply",
    "Run",
    "SandboxError",
    "ToolEnvironment",
    "check_walls",
    "dabench_prompt",
    "extract_answers",
    "is_correct",
    "read_questions",
    "read_reply",
    "run_code",
    "standing_walls",
    "wall_builder",
]
