"""Lists of devices: which are asked for, in what order, and what they count."""
