"""Where buffers lie in the arena: ways to place them, the search among these, and a check that shares no code."""
