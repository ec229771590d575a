"""Models as PyMC programs, a page each, and the settings of the paper's four experiments; `python -m models --help`.

Part of the repository, not of the wheel.
"""
