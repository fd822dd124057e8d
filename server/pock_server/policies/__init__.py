"""Policies: what devices may do when, set for one device or for a pool, and signed for the devices that keep them."""
