"""The main job, end to end, on this machine: what `make demo` and `make serve` run."""
