"""Winograd's minimal filtering, for every language: its transforms, and which convolutions it computes."""
