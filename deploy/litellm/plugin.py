"""What LiteLLM's proxy loads beside its config: a router between the models "small" and "large" of its list."""

from bayes_tacit.frameworks.litellm import TacitLiteLLM
from bayes_tacit.gateway import SessionLog
from bayes_tacit.router import Router

tacit = TacitLiteLLM(Router.load("router.json"), "small", "large", log=SessionLog("gateway.jsonl"))
