"""How much of everything a workspace may have."""
