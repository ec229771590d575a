"""Features by formula, and groups: designs that are evaluated by NumPy alone."""

from bayes_tacit.model.design.columns import Column, Design

__all__ = ["Column", "Design"]
