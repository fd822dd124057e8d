"""What the fleet takes: agents, benchmarks on devices, rounds, tuning, on this machine."""
