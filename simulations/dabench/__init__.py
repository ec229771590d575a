"""InfiAgent-DABench: its questions, a tool environment for them, the paper's features and diagnostics, the checker."""

from models.dabench import DIAGNOSTICS, FEATURES
from simulations.dabench.benchmark import (
    DESCRIPTORS,
    DABench,
    DABenchExtractor,
    ToolEnvironment,
    benchmark,
    dabench_prompt,
)
from simulations.dabench.questions import Question, Reply, extract_answers, is_correct, read_questions, read_reply
from simulations.dabench.sandbox import Limits, Run, Sandbox, SandboxError, check_sandbox, run_code

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
    "Sandbox",
    "SandboxError",
    "ToolEnvironment",
    "benchmark",
    "check_sandbox",
    "dabench_prompt",
    "extract_answers",
    "is_correct",
    "read_questions",
    "read_reply",
    "run_code",
]
