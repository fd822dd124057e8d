"""Says of profiled kernels to which part of a step they belong: devices tell the node, the plan knows its phase."""

from collections.abc import Sequence

from pock_server.artifacts.schemas import Phase
from pock_server.runs.reporting.schemas import KernelMs


def tell_phases(kernels: Sequence[KernelMs], phases: Sequence[Phase]) -> None:
    """Set the kernels' phases by those of the plan's nodes; None for nodes that the plan has not, whatever was sent."""
    for kernel in kernels:
        node = (kernel.model_extra or {}).get("node")
        kernel.phase = phases[node] if type(node) is int and 0 <= node < len(phases) else None
