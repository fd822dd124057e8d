"""ONNX -> Graph, the way that all frameworks take: the `file` is read, the `importer` walks through its nodes and hands
each to its operator's translation. Open `importer` first."""
