"""The two estimates of the model: the penalized maximum likelihood and the posterior."""
