"""The handoff score q(t) of episodes, under a point estimate or under every draw of a posterior."""
