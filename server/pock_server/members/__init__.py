"""Members of a workspace: the persons and scripts that its API keys belong to."""
