"""The ONNX backend: a forward graph as an ONNX model that any ONNX runtime computes."""

from .model import OPSET, OnnxModel, graph_to_onnx
from .operators import claims, unsupported

__all__ = ["OPSET", "OnnxModel", "claims", "graph_to_onnx", "unsupported"]
