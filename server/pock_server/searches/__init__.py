"""Searches for which parameters of a model to train: asked for, done by build workers, kept with what they found."""
