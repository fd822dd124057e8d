"""One stream for many subjects of a workspace, and for what changes in its lists."""
