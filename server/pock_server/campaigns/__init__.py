"""Campaigns: builds on all devices that a selector chooses, with several seeds, and one table of results."""
