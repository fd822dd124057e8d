"""Code generation: what a backend is, and the backends."""
