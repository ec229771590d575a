"""The scripted ALFWorld experiment: which games, what is played, and what came of it."""
