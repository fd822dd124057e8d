"""What a workspace has, may have, and waits for."""
