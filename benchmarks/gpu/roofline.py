"""What a planned training step could take on a GPU: each kernel at the highest rates of the GPU's maker."""

from __future__ import annotations

from dataclasses import dataclass

from pockengine.check.speed import clock_of
from pockengine.codegen.gpu.launches import calls_of
from pockengine.compile import Planned, predicted_peak_bytes, step_cycles


@dataclass(frozen=True)
class Roofline:
    """
    kernels  that a step starts
    flops    operations of a step
    moved    bytes that its kernels read and write
    seconds  of a step, if each kernel reached the rates
    peak     bytes that the plan takes"""

    kernels: int
    flops: int
    moved: int
    seconds: float
    peak: int

    @staticmethod
    def of(planned: Planned) -> Roofline:
        """The step's program is `train`."""
        calls = calls_of({"train": planned.programs["train"]})
        return Roofline(
            len(calls),
            sum(call.flops for call in calls),
            sum(call.bytes for call in calls),
            step_cycles(planned).step / clock_of(planned.target, planned.backend),
            predicted_peak_bytes(planned),
        )
