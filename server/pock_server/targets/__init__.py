"""Devices the compiler can build for, as a worker last described them."""
