"""What the paper's theorem on noisy teacher intervals speaks of, computed: losses, constants, contamination."""
