"""ONNX's own node tests on the interpreter and on the C backend: which are there, which concern us, which pass."""
