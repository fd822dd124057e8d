"""Models that users uploaded; their bytes are never interpreted here."""
