"""A small model written by hand as the compiler would emit it, to test the runtime alone: softmax regression.

logits = (x * scale + offset) W^T + b, with `scale` frozen, `offset` a constant, and W, b trained by SGD with momentum.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

from pockengine.codegen import toolchain
from pockengine.targets import Target

Tensors = Mapping[str, NDArray[np.generic]]

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
    float total = 0;
    for (int row = 0; row < BATCH; row++) {
        const float *z = logits + row * CLASSES;
        int best = 0;
        float sum = 0;
        for (int c = 1; c < CLASSES; c++) best = z[c] > z[best] ? c : best;
        for (int c = 0; c < CLASSES; c++) sum += __builtin_expf(z[c] - z[best]);
        for (int c = 0; c < CLASSES; c++)
            gradient[row * CLASSES + c] = (__builtin_expf(z[c] - z[best]) / sum - (float)(c == labels[row])) / BATCH;
        sample_loss[row] = __builtin_logf(sum) + z[best] - z[labels[row]];
        correct[row] = best == labels[row];
        total += sample_loss[row];
    }
    *loss = total / BATCH;
}
"""

UPDATE = """
#include <stdint.h>
void k_update(void *const *arg, int task, int tasks) {
    const float *x = arg[0], *scale = arg[1], *offset = arg[2], *gradient = arg[3];
    float *w = arg[4], *b = arg[5], *velocity = arg[6];
    for (int c = task; c < CLASSES; c += tasks) {
        for (int d = 0; d < FEATURES; d++) {
            float sum = 0;
            for (int row = 0; row < BATCH; row++)
                sum += gradient[row * CLASSES + c] * (x[row * FEATURES + d] * scale[d] + offset[d]);
            float *v = velocity + c * FEATURES + d;
            *v = 0.9f * *v + sum;
            w[c * FEATURES + d] -= RATE * *v;
        }
        for (int row = 0; row < BATCH; row++) b[c] -= RATE * gradient[row * CLASSES + c];
    }
}
"""

MODEL = """
#include "pock.h"
void k_forward(void *const *arg, int task, int tasks);
void k_loss(void *const *arg, int task, int tasks);
void k_update(void *const *arg, int task, int tasks);

#define LOGITS {POCK_ARENA, 0}
#define GRADIENT {POCK_ARENA, ROWS}
#define SAMPLE_LOSS {POCK_ARENA, 2 * ROWS}
#define CORRECT {POCK_ARENA, 2 * ROWS + LINES}
#define LOSS {POCK_ARENA, 2 * ROWS + 2 * LINES}
#define WEIGHT {POCK_PARAM, 0}
#define BIAS {POCK_PARAM, WEIGHTS}
#define SCALE {POCK_PARAM, WEIGHTS + BIASES}
#define OFFSET {POCK_CONST, 0}
#define VELOCITY {POCK_STATE, 0}
#define X {POCK_INPUT, 0}
#define LABELS {POCK_INPUT, INPUTS}

static const int64_t batch_shape[] = {BATCH};
static const int64_t input_shape[] = {BATCH, FEATURES};
static const int64_t logits_shape[] = {BATCH, CLASSES};
static const int64_t weight_shape[] = {CLASSES, FEATURES};
static const int64_t bias_shape[] = {CLASSES};
static const int64_t scale_shape[] = {FEATURES};

static const pock_tensor params[] = {
    {"fc.weight", POCK_F32, 2, 1, 0, weight_shape, CLASSES * FEATURES * 4, WEIGHT, 0, 0},
    {"fc.bias", POCK_F32, 1, 1, 0, bias_shape, CLASSES * 4, BIAS, 0, 0},
    {"scale", POCK_F32, 1, 0, 0, scale_shape, FEATURES * 4, SCALE, 0, 0},
};
static const pock_tensor states[] = {
    {"fc.weight.velocity", POCK_F32, 2, 1, 0, weight_shape, CLASSES * FEATURES * 4, VELOCITY, 0, 0},
};
static const pock_tensor consts[] = {
    {"offset", POCK_F32, 1, 0, 0, scale_shape, FEATURES * 4, OFFSET, 0, 0},
};
static const pock_tensor inputs[] = {
    {"input", POCK_F32, 2, 0, 0, input_shape, BATCH * FEATURES * 4, X, 0, 0},
    {"labels", POCK_I64, 1, 0, 0, batch_shape, BATCH * 8, LABELS, CLASSES, 0},
};
static const pock_ref refs[] = {
    X, SCALE, OFFSET, WEIGHT, BIAS, LOGITS,
    LOGITS, LABELS, SAMPLE_LOSS, CORRECT, LOSS, GRADIENT,
    X, SCALE, OFFSET, GRADIENT, WEIGHT, BIAS, VELOCITY,
};
static const pock_call calls[] = {
    {k_forward, "fc", "k_forward", 0, 6, 0, 1, 2.0 * BATCH * CLASSES * FEATURES, 0},
    {k_loss, "loss", "k_loss", 6, 6, 1, 0, 0, 0},
    {k_update, "fc.weight", "k_update", 12, 7, 2, 1, 2.0 * BATCH * CLASSES * FEATURES, 0},
};
static const pock_tensor train_outputs[] = {{"loss", POCK_F32, 0, 0, 0, 0, 4, LOSS, 0, 0}};
static const pock_tensor eval_outputs[] = {
    {"sample_loss", POCK_F32, 1, 0, 0, batch_shape, BATCH * 4, SAMPLE_LOSS, 0, 0},
    {"correct", POCK_F32, 1, 0, 0, batch_shape, BATCH * 4, CORRECT, 0, 0},
    {"logits", POCK_F32, 2, 0, 0, logits_shape, BATCH * CLASSES * 4, LOGITS, 0, 0},
};
static const pock_tensor predict_outputs[] = {
    {"logits", POCK_F32, 2, 0, 0, logits_shape, BATCH * CLASSES * 4, LOGITS, 0, 0},
};
static const pock_program train = {"train", calls, 3, refs, train_outputs, 1, ARENA};
static const pock_program eval = {"eval", calls, 2, refs, eval_outputs, 3, ARENA};
static const pock_program predict = {"predict", calls, 1, refs, predict_outputs, 1, ARENA};

const pock_model pock_model_data = {
    "toy", "TARGET", 4, BATCH,
    {ARENA, WEIGHTS + BIASES + SCALES, WEIGHTS, SCALES, INPUTS + LABEL_BYTES}, PEAK,
    params, states, consts, inputs, 3, 1, 1, 2, &train, &eval, &predict, 0, 1,
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

    def space_bytes(self) -> dict[str, int]:
        """Bytes of the five blocks."""
        weights, biases = _aligned(self.classes * self.features * 4), _aligned(self.classes * 4)
        scales = _aligned(self.features * 4)
        arena = 2 * _aligned(self.batch * self.classes * 4) + 2 * _aligned(self.batch * 4) + 64
        inputs = _aligned(self.batch * self.features * 4) + _aligned(self.batch * 8)
        return {
            "arena": arena, "param": weights + biases + scales, "state": weights, "const": scales, "input": inputs,
        }  # fmt: skip

    def sources(self) -> dict[str, str]:
        """Kernels by symbol."""
        kernels = {"k_forward": FORWARD, "k_loss": LOSS, "k_update": UPDATE}
        return {symbol: self._defines() + source for symbol, source in kernels.items()}

    def model_c(self, target: str = "host", peak: int = 1 << 20) -> str:
        """The tables."""
        return f"#define PEAK {peak}\n" + self._defines() + MODEL.replace("TARGET", target)

    def _defines(self) -> str:
        rows, lines = _aligned(self.batch * self.classes * 4), _aligned(self.batch * 4)
        values = {
            "BATCH": self.batch, "FEATURES": self.features, "CLASSES": self.classes, "RATE": f"{self.rate}f",
            "ROWS": rows, "LINES": lines, "ARENA": self.space_bytes()["arena"],
            "WEIGHTS": _aligned(self.classes * self.features * 4), "BIASES": _aligned(self.classes * 4),
            "SCALES": _aligned(self.features * 4), "INPUTS": _aligned(self.batch * self.features * 4),
            "LABEL_BYTES": _aligned(self.batch * 8),
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

    def dataset(self, samples: int = 20) -> dict[str, NDArray[np.generic]]:
        """Samples whose class can be learnt."""
        draw = np.random.default_rng(1)
        labels = draw.integers(0, self.classes, samples)
        centres = draw.normal(size=(self.classes, self.features)) * 2
        x = centres[labels] + draw.normal(size=(samples, self.features))
        return {"input": x.astype(np.float32), "labels": labels.astype(np.int64)}

    def reference(self, batches: list[Tensors]) -> tuple[list[float], Tensors]:
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
