"""The posterior by NUTS: sampling, the verdict on it, and the files it is kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayes_tacit.estimates.posterior.storage import load_posterior, save_posterior
from bayes_tacit.estimates.posterior.verdict import Verdict, judge

if TYPE_CHECKING:
    from bayes_tacit.estimates.posterior.paper_memory import with_paper_memory
    from bayes_tacit.estimates.posterior.sampling import sample_posterior

__all__ = ["Verdict", "judge", "load_posterior", "sample_posterior", "save_posterior", "with_paper_memory"]


def __getattr__(name: str) -> object:
    # Who reads what was sampled does not load PyMC, which takes seconds.
    if name not in ("sample_posterior", "with_paper_memory"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bayes_tacit.estimates.posterior import paper_memory, sampling

    return sampling.sample_posterior if name == "sample_posterior" else paper_memory.with_paper_memory
