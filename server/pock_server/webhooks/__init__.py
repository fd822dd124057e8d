"""Webhooks: what happens in a workspace is told to addresses that its people name, until it arrives."""
