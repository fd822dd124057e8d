"""Runs kernels on this machine: how long candidates take, and what the machine can do at best."""
