"""The reference backend: artifacts whose kernels are the op records' own numpy functions, in planned memory.

It is slow and plain, runs wherever Python does, and is what compiled programs are compared with.
"""

from .backend import ReferenceBackend

__all__ = ["ReferenceBackend"]
