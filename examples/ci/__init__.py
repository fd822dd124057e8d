"""A check for pull requests: no step may become slower on the devices of a pool than that of the last release."""
