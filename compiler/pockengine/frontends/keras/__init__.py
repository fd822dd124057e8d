"""Keras -> Graph. Open `importer` first; the other modules are imported only where TensorFlow is."""
