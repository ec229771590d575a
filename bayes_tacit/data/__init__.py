"""What goes in and what comes out: paired rollouts, what a handoff would have given, costs and outcomes."""
