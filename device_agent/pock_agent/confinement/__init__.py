"""How a program that came from the service is run so that it can do no harm. Open `child` first. Knows no jobs."""
