"""What training steps take on a GPU: estimates, and one command that checks and measures where one is."""
