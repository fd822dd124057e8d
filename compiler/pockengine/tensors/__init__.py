"""Tensors outside of graphs: safetensors files, one or a checkpoint's shards, read and written one by one."""

from .checkpoint import read_checkpoint
from .file import MOST_AXES, Deferred, Tensors, mapped_tensors, stored_tensors
from .mapped import let_go

__all__ = ["MOST_AXES", "Deferred", "Tensors", "let_go", "mapped_tensors", "read_checkpoint", "stored_tensors"]
