"""What experiments that are played have in common: playing, choosing, comparing, and the page on what came of it."""
