"""Images drawn by procedure: figures before backgrounds, from a seed."""
