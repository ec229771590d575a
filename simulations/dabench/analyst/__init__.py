"""A pair of analysts by rule: they answer DABench's questions whose words name the method, without a language model.

They make it possible to play DABench at its full size, through the real sandbox, where no model is at hand. What comes
out says how the policies compare with this pair, and nothing about language models.
"""

from simulations.dabench.analyst.careful import CarefulAnalyst
from simulations.dabench.analyst.hasty import Haste, HastyAnalyst

__all__ = ["CarefulAnalyst", "Haste", "HastyAnalyst"]
