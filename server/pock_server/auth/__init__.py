"""Workspaces and API keys: who a person or script is, and what it may do."""
