"""From scores to a choice: crossings, thresholds under a budget, and bounds from logs alone."""
