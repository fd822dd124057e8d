"""ONNX's own node tests on the numpy interpreter and on the C backend: which there are, which concern us, which pass."""
