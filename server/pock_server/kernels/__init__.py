"""Compiled kernels of a workspace, shared by workers of all machines through the object store. Open `shelf` first."""
