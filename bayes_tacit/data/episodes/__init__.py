"""The one data container: its layout and validation, its splits, and the files it is kept in."""

from bayes_tacit.data.episodes.container import Episodes

__all__ = ["Episodes"]
