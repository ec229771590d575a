"""The command line."""

from bayes_tacit.cli.app import app, main

__all__ = ["app", "main"]
