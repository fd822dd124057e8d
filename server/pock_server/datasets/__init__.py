"""Datasets (safetensors) with the tensors that their headers declare."""
