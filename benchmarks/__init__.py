"""Side-by-side comparisons with peers, each reproducible by one command."""
