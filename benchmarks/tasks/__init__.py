"""Transfer tasks drawn from seeds, and small models that are pre-trained once to be adapted to them."""
