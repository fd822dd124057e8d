"""The ONNX backend: a forward graph as an ONNX model that any ONNX runtime computes."""

from .model import OPSET, OnnxModel, expanded, graph_to_onnx
from .operators import unsupported

__all__ = ["OPSET", "OnnxModel", "expanded", "graph_to_onnx", "unsupported"]
