"""A small model written by hand as the compiler would emit it, to test the runtime alone: softmax regression.

logits = (x * scale + offset) W^T + b, with `scale` frozen, `offset` a constant, and W, b trained by SGD with momentum.
With `accumulate` an optimizer step takes that many batches; with `last_batch="partial"` samples have weights; a `noisy`
model adds a number to the loss that its state `generator` decides, and its learning rate falls with its state `step`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from pockengine.codegen.native import toolchain
from pockengine.targets import Target

Tensors = Mapping[str, NDArray[Any]]

FORWARD = """
#include <stdint.h>
void k_forward(void *const *arg, int task, int tasks) {
    const float *x = arg[0], *scale = arg[1], *offset = arg[2], *w = arg[3], *b = arg[4];
    float *logits = arg[5];
    for (int row = task; row < BATCH; row += tasks)
        for (int c = 0; c < CLASSES; c++) {
            float sum = b[c];
            for (int d = 0; d < FEATURES; d++)
                sum += (x[row * FEATURES + d] * scale[d] + offset[d]) * w[c * FEATURES + d];
            logits[row * CLASSES + c] = sum;
        }
}
"""

LOSS = """
#include <stdint.h>
void k_loss(void *const *arg, int task, int tasks) {
    const float *logits = arg[0];
    const int64_t *labels = arg[1];
    float *sample_loss = arg[2], *correct = arg[3], *loss = arg[4], *gradient = arg[5];
    const float *weight = arg[6];
    float total = 0, weights = 0;
    for (int row = 0; row < BATCH; row++) weights += PARTIAL ? weight[row] : 1;
    for (int row = 0; row < BATCH; row++) {
        float share = (PARTIAL ? weight[row] : 1) / weights;
        const float *z = logits + row * CLASSES;
        int best = 0;
        float sum = 0;
        for (int c = 1; c < CLASSES; c++) best = z[c] > z[best] ? c : best;
        for (int c = 0; c < CLASSES; c++) sum += __builtin_expf(z[c] - z[best]);
        for (int c = 0; c < CLASSES; c++)
            gradient[row * CLASSES + c] = (__builtin_expf(z[c] - z[best]) / sum - (float)(c == labels[row])) * share;
        sample_loss[row] = __builtin_logf(sum) + z[best] - z[labels[row]];
        correct[row] = best == labels[row];
        total += sample_loss[row] * share;
    }
    *loss = total;
}
"""

NOISE = """
#include <stdint.h>
void k_noise(void *const *arg, int task, int tasks) {
    float *loss = arg[0];
    int64_t *generator = arg[1];
    *loss += (float)((uint64_t)*generator * 0x9E3779B97F4A7C15u >> 40) / (1 << 26);
    ++*generator;
}
"""

COUNT = """
#include <stdint.h>
void k_count(void *const *arg, int task, int tasks) { ++*(int64_t *)arg[0]; }
"""

ACCUMULATE = """
void k_accumulate(void *const *arg, int task, int tasks) {
    const float *gradient = arg[0], *x = arg[1], *scale = arg[2], *offset = arg[3];
    float *w = arg[4], *b = arg[5];
    for (int c = task; c < CLASSES; c += tasks)
        for (int row = 0; row < BATCH; row++) {
            float g = gradient[row * CLASSES + c];
            for (int d = 0; d < FEATURES; d++)
                w[c * FEATURES + d] += g * (x[row * FEATURES + d] * scale[d] + offset[d]);
            b[c] += g;
        }
}
"""

UPDATE = """
#include <stdint.h>
void k_update(void *const *arg, int task, int tasks) {
    const float *x = arg[0], *scale = arg[1], *offset = arg[2], *gradient = arg[3];
    float *w = arg[4], *b = arg[5], *velocity = arg[6], *wsum = arg[7], *bsum = arg[8];
    const int64_t *step = arg[9];
    float rate = NOISY ? RATE / (1 + 0.1f * (float)*step) : RATE;
    for (int c = task; c < CLASSES; c += tasks) {
        for (int d = 0; d < FEATURES; d++) {
            float sum = 0;
            for (int row = 0; row < BATCH; row++)
                sum += gradient[row * CLASSES + c] * (x[row * FEATURES + d] * scale[d] + offset[d]);
            float *v = velocity + c * FEATURES + d;
            if (MICRO > 1) {
                sum = (wsum[c * FEATURES + d] + sum) / MICRO;
                wsum[c * FEATURES + d] = 0;
            }
            *v = 0.9f * *v + sum;
            w[c * FEATURES + d] -= rate * *v;
        }
        for (int row = 0; row < BATCH; row++) b[c] -= rate * gradient[row * CLASSES + c] / MICRO;
        if (MICRO > 1) {
            b[c] -= rate * bsum[c] / MICRO;
            bsum[c] = 0;
        }
    }
}
"""

MODEL = """
#include "pock.h"
void k_forward(void *const *arg, int task, int tasks);
void k_loss(void *const *arg, int task, int tasks);
void k_update(void *const *arg, int task, int tasks);
void k_noise(void *const *arg, int task, int tasks);
void k_accumulate(void *const *arg, int task, int tasks);
void k_count(void *const *arg, int task, int tasks);

#define TENSOR(name_, dtype_, rank_, trained_, shape_, nbytes_, ...)                                         \\
    {.name = name_, .dtype = dtype_, .rank = rank_, .trained = trained_, .shape = shape_, .nbytes = nbytes_, \\
     .ref = __VA_ARGS__}
#define LOGITS {POCK_ARENA, 0}
#define GRADIENT {POCK_ARENA, ROWS}
#define SAMPLE_LOSS {POCK_ARENA, 2 * ROWS}
#define CORRECT {POCK_ARENA, 2 * ROWS + LINES}
#define LOSS {POCK_ARENA, 2 * ROWS + 2 * LINES}
#define WEIGHT {POCK_PARAM, 0}
#define BIAS {POCK_PARAM, WEIGHTS}
#define SCALE {POCK_PARAM, WEIGHTS + BIASES}
#define OFFSET {POCK_CONST, 0}
#define VELOCITY {POCK_STATE, 128}
#define GENERATOR {POCK_STATE, 0}
#define STEP {POCK_STATE, 64}
#define WEIGHT_SUM {POCK_STATE, 128 + WEIGHTS}
#define BIAS_SUM {POCK_STATE, 128 + 2 * WEIGHTS}
#define X {POCK_INPUT, 0}
#define LABELS {POCK_INPUT, INPUTS}
#define SAMPLE_WEIGHT {POCK_INPUT, INPUTS + LABEL_BYTES}

static const int64_t batch_shape[] = {BATCH};
static const int64_t input_shape[] = {BATCH, FEATURES};
static const int64_t logits_shape[] = {BATCH, CLASSES};
static const int64_t weight_shape[] = {CLASSES, FEATURES};
static const int64_t bias_shape[] = {CLASSES};
static const int64_t scale_shape[] = {FEATURES};

static const pock_tensor params[] = {
    TENSOR("fc.weight", POCK_F32, 2, 1, weight_shape, CLASSES * FEATURES * 4, WEIGHT),
    TENSOR("fc.bias", POCK_F32, 1, 1, bias_shape, CLASSES * 4, BIAS),
    TENSOR("scale", POCK_F32, 1, 0, scale_shape, FEATURES * 4, SCALE),
};
static const pock_tensor states[] = {
#if NOISY
    TENSOR("generator", POCK_I64, 0, 1, 0, 8, GENERATOR),
    TENSOR("step", POCK_I64, 0, 1, 0, 8, STEP),
#endif
    TENSOR("fc.weight.velocity", POCK_F32, 2, 1, weight_shape, CLASSES * FEATURES * 4, VELOCITY),
#if MICRO > 1
    TENSOR("fc.weight.accumulated", POCK_F32, 2, 1, weight_shape, CLASSES * FEATURES * 4, WEIGHT_SUM),
    TENSOR("fc.bias.accumulated", POCK_F32, 1, 1, bias_shape, CLASSES * 4, BIAS_SUM),
#endif
};
static const pock_tensor consts[] = {
    TENSOR("offset", POCK_F32, 1, 0, scale_shape, FEATURES * 4, OFFSET),
};
static const pock_tensor inputs[] = {
    TENSOR("input", POCK_F32, 2, 0, input_shape, BATCH * FEATURES * 4, X),
    TENSOR("labels", POCK_I64, 1, 0, batch_shape, BATCH * 8, LABELS, .limit = CLASSES, .target = POCK_TARGET),
    TENSOR("sample_weight", POCK_F32, 1, 0, batch_shape, BATCH * 4, SAMPLE_WEIGHT, .target = POCK_SAMPLE_WEIGHT),
};
static const pock_ref refs[] = {
    X, SCALE, OFFSET, WEIGHT, BIAS, LOGITS,
    LOGITS, LABELS, SAMPLE_LOSS, CORRECT, LOSS, GRADIENT, SAMPLE_WEIGHT,
    X, SCALE, OFFSET, GRADIENT, WEIGHT, BIAS, VELOCITY, WEIGHT_SUM, BIAS_SUM, STEP,
    LOSS, GENERATOR,
    STEP,
    GRADIENT, X, SCALE, OFFSET, WEIGHT_SUM, BIAS_SUM,
};
static const pock_call calls[] = {
    {k_forward, "fc", "k_forward", 0, 6, 0, 1, 2.0 * BATCH * CLASSES * FEATURES, 0},
    {k_loss, "loss", "k_loss", 6, 7, 1, 0, 0, 0},
    {k_update, "fc.weight", "k_update", 13, 10, 2, 1, 2.0 * BATCH * CLASSES * FEATURES, 0},
    {k_noise, "noise", "k_noise", 23, 2, 3, 0, 0, 0},
    {k_count, "step", "k_count", 25, 1, 4, 0, 0, 0},
};
static const pock_call accumulate_calls[] = {
    {k_forward, "fc", "k_forward", 0, 6, 0, 1, 0, 0},
    {k_loss, "loss", "k_loss", 6, 7, 1, 0, 0, 0},
    {k_accumulate, "fc.weight", "k_accumulate", 26, 6, 2, 1, 0, 0},
    {k_noise, "noise", "k_noise", 23, 2, 3, 0, 0, 0},
};
static const pock_tensor train_outputs[] = {TENSOR("loss", POCK_F32, 0, 0, 0, 4, LOSS)};
static const pock_tensor eval_outputs[] = {
    TENSOR("sample_loss", POCK_F32, 1, 0, batch_shape, BATCH * 4, SAMPLE_LOSS),
    TENSOR("correct", POCK_F32, 1, 0, batch_shape, BATCH * 4, CORRECT),
    TENSOR("logits", POCK_F32, 2, 0, logits_shape, BATCH * CLASSES * 4, LOGITS),
};
static const pock_tensor predict_outputs[] = {
    TENSOR("logits", POCK_F32, 2, 0, logits_shape, BATCH * CLASSES * 4, LOGITS),
};
static const pock_program train = {"train", calls, NOISY ? 5 : 3, refs, train_outputs, 1, ARENA};
static const pock_program accumulate = {"accumulate", accumulate_calls, NOISY ? 4 : 3, refs, train_outputs, 1, ARENA};
static const pock_program eval = {"eval", calls, 2, refs, eval_outputs, 3, ARENA};
static const pock_program predict = {"predict", calls, 1, refs, predict_outputs, 1, ARENA};

const pock_model pock_model_data = {
    .name = "toy", .target = "TARGET_NAME", .threads = 4, .batch = BATCH,
    .space_bytes = {ARENA, WEIGHTS + BIASES + SCALES, STATES, SCALES, INPUTS + LABEL_BYTES + LINES},
    .predicted_peak_bytes = PEAK, .params = params, .states = states, .consts = consts, .inputs = inputs,
    .param_count = 3, .state_count = sizeof states / sizeof *states, .const_count = 1, .input_count = PARTIAL ? 3 : 2,
    .train = &train, .eval = &eval, .predict = &predict, .accumulate = MICRO > 1 ? &accumulate : 0,
    .accumulate_steps = MICRO, .last_batch = LAST_BATCH,
};
"""


def _aligned(nbytes: int) -> int:
    return (nbytes + 63) // 64 * 64


@dataclass(frozen=True)
class Toy:
    """The model's sizes and learning rate."""

    batch: int = 8
    features: int = 5
    classes: int = 3
    rate: float = 0.1
    accumulate: int = 1
    last_batch: str = "wrap"
    noisy: bool = False

    def space_bytes(self) -> dict[str, int]:
        """Bytes of the five blocks."""
        weights, biases = _aligned(self.classes * self.features * 4), _aligned(self.classes * 4)
        scales = _aligned(self.features * 4)
        arena = 2 * _aligned(self.batch * self.classes * 4) + 2 * _aligned(self.batch * 4) + 64
        inputs = _aligned(self.batch * self.features * 4) + _aligned(self.batch * 8) + _aligned(self.batch * 4)
        states = 128 + weights + (weights + biases if self.accumulate > 1 else 0)
        return {
            "arena": arena, "param": weights + biases + scales, "state": states, "const": scales, "input": inputs,
        }  # fmt: skip

    def sources(self) -> dict[str, str]:
        """Kernels by symbol."""
        kernels = {"k_forward": FORWARD, "k_loss": LOSS, "k_update": UPDATE, "k_noise": NOISE, "k_count": COUNT}
        kernels["k_accumulate"] = ACCUMULATE
        return {symbol: self._defines() + source for symbol, source in kernels.items()}

    def model_c(self, target: str = "host", peak: int = 1 << 20) -> str:
        """The tables."""
        return f"#define PEAK {peak}\n" + self._defines() + MODEL.replace("TARGET_NAME", target)

    def _defines(self) -> str:
        rows, lines = _aligned(self.batch * self.classes * 4), _aligned(self.batch * 4)
        values = {
            "BATCH": self.batch, "FEATURES": self.features, "CLASSES": self.classes, "RATE": f"{self.rate}f",
            "ROWS": rows, "LINES": lines, "ARENA": self.space_bytes()["arena"],
            "WEIGHTS": _aligned(self.classes * self.features * 4), "BIASES": _aligned(self.classes * 4),
            "SCALES": _aligned(self.features * 4), "INPUTS": _aligned(self.batch * self.features * 4),
            "LABEL_BYTES": _aligned(self.batch * 8), "STATES": self.space_bytes()["state"], "MICRO": self.accumulate,
            "LAST_BATCH": f"POCK_{self.last_batch.upper()}", "PARTIAL": int(self.last_batch == "partial"),
            "NOISY": int(self.noisy),
        }  # fmt: skip
        return "".join(f"#define {name} {value}\n" for name, value in values.items())

    def params(self) -> dict[str, NDArray[np.float32]]:
        """Initial parameters."""
        draw = np.random.default_rng(0)
        return {
            "fc.weight": draw.normal(size=(self.classes, self.features)).astype(np.float32),
            "fc.bias": np.zeros(self.classes, np.float32),
            "scale": np.linspace(0.5, 1.5, self.features, dtype=np.float32),
        }

    def dataset(self, samples: int = 20) -> dict[str, NDArray[Any]]:
        """Samples whose class can be learnt."""
        draw = np.random.default_rng(1)
        labels = draw.integers(0, self.classes, samples)
        centres = draw.normal(size=(self.classes, self.features)) * 2
        x = centres[labels] + draw.normal(size=(samples, self.features))
        return {"input": x.astype(np.float32), "labels": labels.astype(np.int64)}

    def reference(self, batches: Sequence[Tensors]) -> tuple[list[float], Tensors]:
        """Losses and final parameters of training steps on the batches, by numpy."""
        params = {name: value.astype(np.float64) for name, value in self.params().items()}
        velocity = np.zeros_like(params["fc.weight"])
        losses = []
        for batch in batches:
            x = batch["input"].astype(np.float64) * params["scale"]
            logits = x @ params["fc.weight"].T + params["fc.bias"]
            shifted = np.exp(logits - logits.max(axis=1, keepdims=True))
            probability = shifted / shifted.sum(axis=1, keepdims=True)
            hit = np.eye(self.classes)[batch["labels"]]
            losses.append(float(-np.log((probability * hit).sum(axis=1)).mean()))
            gradient = (probability - hit) / self.batch
            velocity = 0.9 * velocity + gradient.T @ x
            params["fc.weight"] -= self.rate * velocity
            params["fc.bias"] -= self.rate * gradient.sum(axis=0)
        return losses, params

    def write_weights(self, folder: Path) -> None:
        """`params.safetensors` and `consts.safetensors`."""
        save_file(self.params(), folder / "params.safetensors")
        save_file({"offset": np.zeros(self.features, np.float32)}, folder / "consts.safetensors")

    def build(self, folder: Path, target: Target, library: bool = False, peak: int = 1 << 20) -> Path:
        """Compiles into `folder` in the artifact's layout; the executable's path."""
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        self.write_weights(folder)
        objects = toolchain.compile_objects(self.sources(), target)
        executable = folder / "bin" / "model"
        executable.write_bytes(toolchain.link_executable(objects, self.model_c(target.name, peak), target))
        executable.chmod(0o755)
        if library:
            linked = toolchain.link_library(objects, self.model_c(target.name, peak), target)
            (folder / "bin" / toolchain.library_name(target)).write_bytes(linked)
        return executable
