"""What builds produced."""
