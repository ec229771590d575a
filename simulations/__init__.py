"""Simulators with known truth, and the studies run on them. Part of the repository, not of the wheel."""
