"""When should a cheap LLM agent hand over, for good, to the expensive one? TACIT-Switch, the Bayesian way."""
