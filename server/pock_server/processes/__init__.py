"""The processes of a service that serves: `one`, or `several` on one socket under a parent that keeps them."""
