"""Functions of PyTorch that its exporter refuses or gets wrong, written out in others. Open `rewritten` first, their
table."""
