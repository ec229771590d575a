"""An adapter whose framework is not installed names its extra."""

import importlib
import sys

import pytest

from bayes_tacit.errors import MissingDependencyError


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        ("langchain", "langchain.agents.middleware.types", "langchain"),
        ("litellm", "litellm", "litellm"),
        ("openai_agents", "agents", "openai-agents"),
    ],
)
def test_without_its_framework_an_adapter_names_its_extra(monkeypatch, adapter, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"bayes_tacit.frameworks.{adapter}", raising=False)
    with pytest.raises(MissingDependencyError, match=rf"bayes_tacit\[{extra}\]"):
        importlib.import_module(f"bayes_tacit.frameworks.{adapter}")
