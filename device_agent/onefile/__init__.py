"""The agent as one file, for devices without pip."""
