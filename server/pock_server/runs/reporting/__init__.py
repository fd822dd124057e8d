"""What runs report, as the API shows it."""
