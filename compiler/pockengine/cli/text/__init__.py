"""What `pock` does with texts: datasets of token streams, generation."""

from .data import data_app

__all__ = ["data_app"]
