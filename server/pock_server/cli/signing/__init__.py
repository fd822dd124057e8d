"""Commands about keys: those that sign work, the one that they lie under, and what root keys sign."""
