"""Which parameters to train: schemes against each other on the transfer tasks, at the same memory."""
