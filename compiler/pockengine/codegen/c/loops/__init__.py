"""Templates that are loops over one index space: elementwise, reductions, movement, pooling, look-ups, scans."""
