"""Learning rates as values of the graph: constants or states, times a factor of the state `step` with a schedule."""

from __future__ import annotations

import math

from ..ir import Builder, DType, TensorType, Value
from ..ops import Emitter
from ..recipe import Optimizer, RateSchedule

STEP = "step"


class Rates:
    """Emits the learning rate of each group, each distinct one once."""

    def __init__(self, builder: Builder, optimizer: Optimizer) -> None:
        self.builder, self.optimizer, self.schedule = builder, optimizer, optimizer.schedule
        self.emitter = Emitter(builder)
        self._adjustable: dict[str, Value] = {}
        self._step: Value | None = None
        self._factor: Value | None = None

    def done(self) -> Value:
        """Optimizer steps done before this one: a state of type i64, which this step advances."""
        if self._step is None:
            self._step = self.builder.state(STEP, TensorType(DType.I64, ()))
            self.builder.updates[self._step] = self.emitter.add(self._step, 1)
        return self._step

    def count(self) -> Value:
        """The number of this optimizer step, from 1, as f32."""
        return self.emitter.add(self.emitter.cast(self.done(), DType.F32), 1.0)

    def rate(self, param: str) -> Value:
        """The parameter's learning rate times the schedule's factor, f32 of rank 0."""
        lr, _ = self.optimizer.rates_of(param)
        if self.schedule.is_constant:
            return self._state(param, lr) if self.optimizer.adjustable else self.emitter.const(lr, DType.F32)
        if self._factor is None:
            self._factor = factor(self.emitter, self.schedule, self.done())
        return self.emitter.mul(self._factor, self._state(param, lr) if self.optimizer.adjustable else lr)

    def _state(self, param: str, lr: float) -> Value:
        """A state that starts as the recipe's rate, and that no step changes."""
        name = self.optimizer.rate_state(param)
        if name not in self._adjustable:
            self._adjustable[name] = self.builder.state(name, TensorType(DType.F32, ()), lr)
        return self._adjustable[name]


def factor(e: Emitter, schedule: RateSchedule, done: Value) -> Value:
    """The schedule's factor (f32 of rank 0) when `done` (i64) optimizer steps have been done."""
    count = e.cast(done, DType.F32)
    after = _after_warmup(e, schedule, count, done)
    if not schedule.warmup:
        return after
    start = schedule.warmup_start
    rising = e.add(e.mul(count, (1.0 - start) / schedule.warmup), start)
    return e.where(e.less(count, float(schedule.warmup)), rising, after)


def _after_warmup(e: Emitter, schedule: RateSchedule, count: Value, done: Value) -> Value:
    if schedule.name == "constant":
        return e.scalar(1.0, count)
    if schedule.name == "step":
        assert schedule.every is not None
        drops = e.div(e.maximum(e.sub(done, schedule.warmup), 0), schedule.every)
        return e.op("pow", e.scalar(schedule.gamma, count), e.cast(drops, DType.F32))
    assert schedule.steps is not None
    length = schedule.steps - schedule.warmup
    progress = e.op("clip", e.div(e.sub(count, float(schedule.warmup)), float(length)), lo=0.0, hi=1.0)
    if schedule.name == "linear":
        return e.add(e.mul(progress, schedule.end - 1.0), 1.0)
    wave = e.add(e.op("cos", e.mul(progress, math.pi)), 1.0)
    return e.add(e.mul(wave, (1.0 - schedule.end) / 2), schedule.end)
