"""What is timed: medians of repeated runs in one process, beside a peer in the same run. `make bench` prints them."""
