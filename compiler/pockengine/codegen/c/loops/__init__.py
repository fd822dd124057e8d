"""Templates that are loops over one index space: elementwise, reductions, movement, pooling, gather, scatter, scans."""
