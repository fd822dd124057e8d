"""Rollouts: a release of the agent comes to the devices of a selector, a few first, then stage by stage."""
