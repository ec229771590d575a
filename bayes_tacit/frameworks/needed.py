"""Saying which extra a framework's adapter needs."""

from __future__ import annotations

from bayes_tacit.errors import MissingDependencyError


def without(framework: str, extra: str, error: ImportError) -> MissingDependencyError:
    """Give the error to raise where a framework cannot be imported.

    Examples
    --------
    >>> print(without("LangChain 1.x", "langchain", ModuleNotFoundError("No module named 'langchain'")))
    the adapter of LangChain 1.x cannot import it (No module named 'langchain'): install bayes_tacit[langchain]
    """
    return MissingDependencyError(
        f"the adapter of {framework} cannot import it ({error}): install bayes_tacit[{extra}]"
    )
