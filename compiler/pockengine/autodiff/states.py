"""How optimizer state is kept from step to step: as f32 tensors, or in 8 bits where the recipe asks for it."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Builder, DType, TensorType, Value
from ..ops import Emitter, eight_bits
from ..ops.optimizers import OptimizerSpec
from ..recipe import Optimizer
from .generator import Noise


@dataclass(frozen=True)
class StateTensor:
    """One state tensor of a parameter: `state` holds the numbers, or codes where there is a `scale`. `root`: of the
    roots of the numbers."""

    state: Value
    scale: Value | None = None
    root: bool = False


class States:
    """Emits reads and writes of optimizer state."""

    def __init__(self, builder: Builder, optimizer: Optimizer, spec: OptimizerSpec, noise: Noise) -> None:
        self.builder, self.spec, self.noise, self.emitter = builder, spec, noise, Emitter(builder)
        self.eight_bits = optimizer.state == "int8"

    def view(self, x: Value) -> Value:
        """What belongs to a parameter, in the shape in which its state is kept: [blocks, block] in 8 bits.

        The reshape is marked as kept: elementwise ops stay behind it, next to the maximum of each block."""
        block = self._block(x)
        return x if block is None else self.emitter.op("reshape", x, shape=(x.type.size // block, block), kept=True)

    def tensors(self, name: str, like: Value) -> list[StateTensor]:
        """The state tensors of a parameter, whose gradient is `like` as `view` gives it."""
        blocked = self._block(like) is not None
        shapes = self.spec.state_shapes(like.type.shape)
        types = {what: TensorType(like.type.dtype, shape) for what, shape in shapes.items()}
        return [
            self._tensor(f"{name}.{what}", type, what in self.spec.squares, blocked) for what, type in types.items()
        ]

    def read(self, tensor: StateTensor) -> Value:
        """The numbers of a state tensor, f32."""
        if tensor.scale is None:
            return tensor.state
        numbers = eight_bits.decode(self.emitter, tensor.state, tensor.scale)
        return self.emitter.mul(numbers, numbers) if tensor.root else numbers

    def write(self, tensor: StateTensor, new: Value) -> None:
        """Register new numbers of a state tensor."""
        updates = self.builder.updates
        if tensor.scale is None:
            updates[tensor.state] = new
            return
        numbers = self.emitter.op("sqrt", new) if tensor.root else new
        codes = eight_bits.encode(self.emitter, numbers, tensor.state.type.dtype, self.noise.seed(), self.noise.site())
        updates[tensor.state], updates[tensor.scale] = codes

    def _block(self, x: Value) -> int | None:
        """Elements that share a scale; None where the state is f32."""
        return eight_bits.block_length(x.type.size) if self.eight_bits else None

    def _tensor(self, name: str, type: TensorType, root: bool, blocked: bool) -> StateTensor:
        if not blocked:
            return StateTensor(self.builder.state(name, type))
        codes = self.builder.state(name, type.with_dtype(DType.U8 if root else DType.I8))
        return StateTensor(codes, self.builder.state(f"{name}.scale", type.with_shape((type.shape[0], 1))), root)
