"""A router for the first day: before there are logs to learn from."""

from __future__ import annotations

from bayes_tacit import validate
from bayes_tacit.data.handoffs import DEFAULT_HANDOFF, Handoff
from bayes_tacit.logs.extractor import FLAGS
from bayes_tacit.router import PolicyRouter
from bayes_tacit.router.control import CountController


def default_router(signs: int = 4, handoff: Handoff = DEFAULT_HANDOFF) -> PolicyRouter:
    """Give a router that counts bad signs: repeated calls, cycles, tool errors and the like, all that messages show.

    It needs no features and no log-probabilities, which calls of tools often lack. Nothing in it was learned; replace
    it by what `bayes-tacit recommend` names as soon as there are logs.

    Parameters
    ----------
    signs
        How many signs hand off.
    handoff
        What Strong does then.

    Examples
    --------
    >>> default_router()
    <PolicyRouter: count, post_action, resume; 6 diagnostics, 0 features>
    """
    threshold = float(validate.whole("signs", signs, 1))
    return PolicyRouter(CountController(dict.fromkeys(FLAGS, 0.5), threshold, handoff=handoff), (), FLAGS)
