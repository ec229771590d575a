"""DABench, played: which questions, by whom, and what came of it."""
