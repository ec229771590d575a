"""The threshold model: what each episode says of it, its likelihood, its priors, and the PyMC program."""
