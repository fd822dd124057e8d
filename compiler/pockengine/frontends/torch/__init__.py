"""PyTorch -> Graph. Open `importer` first; the other modules are imported only where PyTorch is."""
