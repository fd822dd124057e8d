"""Requests to compile a model for a target, their progress and log."""
