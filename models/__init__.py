"""The experiments of the paper as PyMC programs, one file each. Part of the repository, not of the wheel."""
