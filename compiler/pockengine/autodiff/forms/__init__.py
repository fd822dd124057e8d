"""A model in other forms than it came in: as it trains, averaged, and as it was before training."""
