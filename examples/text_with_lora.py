"""Teach a small language model a new text with low-rank adapters, its own weights frozen in 8 bits.

    python -m examples.text_with_lora

The model is LLaMA-shaped, from a `transformers` configuration with random weights; the text is this file, letter by
letter.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import load_file
from transformers import LlamaConfig, LlamaForCausalLM

import pockengine as pock

LENGTH, BATCH, STEPS = 64, 4, 60
RECIPE = pock.Recipe(
    loss="causal_lm",
    optimizer={"name": "adamw", "lr": 0.01},
    batch=BATCH,
    lora={"params": ["*.q_proj", "*.v_proj", "*.up_proj", "*.down_proj", "lm_head"], "rank": 8, "alpha": 16},
    frozen={"weights": "int8", "params": "model.layers.*"},
)


def main() -> None:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=256, hidden_size=128, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, use_cache=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    text = np.frombuffer(Path(__file__).read_bytes(), np.uint8).astype(np.int64)

    graph = pock.from_torch(model, (torch.zeros(BATCH, LENGTH, dtype=torch.long),))
    artifact = pock.compile(graph, RECIPE, target="host")
    told = artifact.summary
    print(f"{told['trained_parameters']} of {told['parameters']} numbers are trained")

    session = artifact.load()
    chance = np.random.default_rng(0)
    losses = []
    for _ in range(STEPS):
        starts = chance.integers(0, len(text) - LENGTH, BATCH)
        tokens = np.stack([text[start : start + LENGTH] for start in starts])
        losses.append(session.step({"input_ids": tokens, "labels": tokens}))
    print(f"loss a letter: {losses[0]:.2f} -> {losses[-1]:.2f}")
    assert losses[-1] < 0.75 * losses[0]

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "adapters.safetensors")
        artifact.export(file, weights=session.state(), adapters=True)
        print(f"the adapters: {len(load_file(file))} tensors, {file.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main()
