"""Folders as they are downloaded from a model hub: trained as PyTorch trains them, refused where they are hostile."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

import pockengine as pock
from pockengine.check import check_file
from pockengine.errors import DynamicShapeError, ModelError
from pockengine.frontends import pretrained
from pockengine.frontends.torch import pretrained as folders
from pockengine.interp import evaluate
from pockengine.ir import DType

from ...cli.command import pock as command

DIMS = {"sequence": 8}
LLAMA = LlamaConfig(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=16,
)  # fmt: skip
SGD = {"name": "sgd", "lr": 0.5}


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `save_pretrained` writes it, in shards."""
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("hub") / "tiny-llama"
    LlamaForCausalLM(LLAMA).save_pretrained(folder, max_shard_size="8KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    return folder


@pytest.fixture
def folder(llama: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    return Path(shutil.copytree(llama, tmp_path / "copy"))


def changed(folder: Path, **said: Any) -> Path:
    """The folder with other entries in its `config.json`; None takes one out."""
    file = folder / "config.json"
    before = {**json.loads(file.read_text()), **said}
    file.write_text(json.dumps({key: value for key, value in before.items() if value is not None}))
    return folder


def test_three_steps_are_pytorchs(llama: Path) -> None:
    graph = pock.load(llama, DIMS, batch=2)
    assert graph.name == "tiny-llama"
    assert [value.name for value in graph.inputs] == ["input_ids", "position_ids"]
    recipe = pock.Recipe("causal_lm", SGD, update="full", batch=2)
    module = LlamaForCausalLM.from_pretrained(llama).train()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    rows = np.random.default_rng(0).integers(0, 32, (3, 2, 8))
    with pock.compile(graph, recipe, threads=1).load() as session:
        for ids in rows:
            tokens = torch.from_numpy(ids)
            optimizer.zero_grad()
            loss = module(input_ids=tokens, labels=tokens).loss
            loss.backward()
            optimizer.step()
            places = np.arange(8).repeat(2).reshape(8, 2).T
            found = session.step({"input_ids": ids, "position_ids": places, "labels": ids})
            assert found == pytest.approx(loss.item(), rel=1e-5)
        trained = session.state()
    for name, tensor in module.named_parameters():
        np.testing.assert_allclose(trained[name], tensor.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_packed_documents_do_not_see_each_other(llama: Path) -> None:
    graph = pock.load(llama, DIMS, batch=1)
    ids = np.arange(8)[None]
    packed = evaluate(graph, {"input_ids": ids, "position_ids": np.array([[0, 1, 2, 3, 0, 1, 2, 3]])})["logits"]
    other = evaluate(graph, {"input_ids": ids % 4 + 4, "position_ids": np.array([[0, 1, 2, 3, 0, 1, 2, 3]])})["logits"]
    np.testing.assert_allclose(packed[0, 4:], other[0, 4:], rtol=1e-5, atol=1e-6)
    assert not np.allclose(packed[0, :4], other[0, :4])


def test_a_model_saved_without_its_head_by_old_names(tmp_path: Path) -> None:
    """As GPT-2 is on the hub: without the prefix of the model with its head, which is the embedding."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=32, n_embd=16, n_layer=1, n_head=2, n_positions=8, architectures=["GPT2LMHeadModel"])
    module = GPT2LMHeadModel(config).eval()
    config.save_pretrained(tmp_path)
    tensors = {name.replace("ln_f.weight", "ln_f.gamma"): x for name, x in module.transformer.state_dict().items()}
    save_file(tensors, tmp_path / "model.safetensors")
    graph = pock.load(tmp_path, DIMS, batch=1)
    ids = torch.arange(8)[None]
    found = evaluate(graph, {"input_ids": ids.numpy(), "position_ids": ids.numpy()})["logits"]
    np.testing.assert_allclose(found, module(ids).logits.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_every_command_takes_a_folder(llama, tmp_path, capsys, monkeypatch) -> None:
    recipe, output = tmp_path / "r.yaml", tmp_path / "m.pock"
    recipe.write_text(
        "loss: causal_lm\noptimizer: {name: sgd, lr: 0.1}\nbatch: 2\nupdate: [{params: '*norm.weight'}]\n"
    )
    options = ["--recipe", recipe, "--dim", "sequence=8", "--json"]
    code, out, _ = command("check", llama, *options, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    checked = json.loads(out)
    assert checked["inputs"] == {"input_ids": "i64[2,8]", "position_ids": "i64[2,8]"}
    code, out, _ = command("compile", llama, *options, "-o", output, capsys=capsys, monkeypatch=monkeypatch)
    assert code == 0
    assert json.loads(out)["predicted_peak_bytes"] == checked["estimate"]["predicted_peak_bytes"]
    code, out, _ = command("verify", llama, *options, capsys=capsys, monkeypatch=monkeypatch)
    assert (code, json.loads(out)["agrees"]) == (0, True)
    code, _, err = command("check", llama, "--batch", "2", capsys=capsys, monkeypatch=monkeypatch)
    assert (code, err) == (2, "pock: the tokens of a sample are not given: give them with --dim sequence=VALUE\n")


def test_what_is_no_model(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="has no config.json: a model is an ONNX file, or a folder with config.json"):
        pock.load(tmp_path, DIMS, batch=1)
    for text in ("", "{", "[" * 100_000):
        (folder / "config.json").write_text(text)
        with pytest.raises(ModelError, match="config.json' is not JSON, or it is truncated"):
            pock.load(folder, DIMS, batch=1)
    (folder / "config.json").write_text("[]")
    with pytest.raises(ModelError, match="must be an object"):
        pock.load(folder, DIMS, batch=1)


@pytest.mark.parametrize(
    "said, sentence",
    [
        (
            {"model_type": "nonsense", "auto_map": {"AutoConfig": "own.Config"}},
            "'nonsense', which transformers .* not run",
        ),
        ({"model_type": None}, "has the model_type 'None'"),
        ({"architectures": None}, "has no 'architectures', such as"),
        ({"architectures": ["LlamaForNonsense"]}, "'LlamaForNonsense', which transformers .* does not have"),
        ({"architectures": ["pipeline"]}, "'pipeline', which transformers .* does not have"),
        ({"architectures": ["__import__('os')"]}, "which transformers .* does not have"),
        ({"architectures": ["ViTForImageClassification"]}, "takes more than a text's tokens"),
        ({"is_encoder_decoder": True}, "takes more than a text's tokens"),
        ({"backbone": "owner/other"}, r"another model \('owner/other'\) as its backbone"),
        ({"num_hidden_layers": 10**9}, "1000000000 as 'num_hidden_layers', and more than 10000 layers"),
        ({"num_hidden_layers": 3}, "has no tensor 'model.layers.2"),
        ({"hidden_size": "much"}, "makes no LlamaForCausalLM"),
        ({"intermediate_size": 48}, r"is \[.*\] in .* and \[.*48.*\] in the module"),
    ],
)
def test_what_does_not_describe_the_weights(folder: Path, said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ModelError, match=sentence):
        pock.load(changed(folder, **said), DIMS, batch=1)


def test_code_of_the_folder_and_kernels_of_others_are_left_alone(folder: Path, tmp_path: Path) -> None:
    (folder / "modeling_own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    own = {"AutoConfig": "modeling_own.Config", "AutoModelForCausalLM": "modeling_own.Model"}
    changed(folder, auto_map=own, attn_implementation="owner/kernels", _attn_implementation="owner/kernels")
    assert pretrained(folder, DIMS, 1).module.config._attn_implementation in ("sdpa", "eager")
    assert pock.load(folder, DIMS, batch=1).outputs
    assert not (tmp_path / "ran").exists()


def test_a_model_of_too_many_parts_is_given_up(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "_MOST_PARAMETERS", 10)
    with pytest.raises(ModelError, match="would have more than 10 parameters"):
        pretrained(llama, DIMS, 1)


def test_a_shard_is_missing(folder: Path) -> None:
    shard = sorted(folder.glob("*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(ModelError, match=f"there is no file of weights '.*{shard.name}'"):
        pock.load(folder, DIMS, batch=1)


@pytest.mark.parametrize(
    "dims, batch, sentence",
    [
        ({}, 1, "give them with --dim sequence=VALUE"),
        (DIMS, None, "give them with --batch N"),
        ({"sequence": 17}, 1, "LlamaForCausalLM has 16 positions: --dim sequence=17 is too long"),
        ({"sequence": 0}, 1, "'sequence' must be at least 1"),
        ({**DIMS, "length": 3}, 1, "no dynamic dimension 'length'"),
    ],
)
def test_sizes(llama: Path, dims: dict[str, int], batch: int | None, sentence: str) -> None:
    with pytest.raises(DynamicShapeError, match=sentence):
        pock.load(llama, dims, batch)


def test_16_bits_stay_as_they_are(folder: Path) -> None:
    for file in folder.glob("*.safetensors"):
        save_file({name: x.bfloat16() for name, x in load_file(file).items()}, file)
    graph = pock.load(folder, DIMS, batch=1)
    assert {value.type.dtype for value in graph.params} == {DType.BF16}
    loaded = pretrained(folder, DIMS, 1).loaded()
    assert isinstance(loaded, nn.Module)
    assert {x.dtype for x in loaded.parameters()} == {torch.float32}


def test_check_tells_operators_and_layers(llama: Path) -> None:
    report = check_file(llama, pock.Recipe("causal_lm", SGD, update="full", batch=1), dims=DIMS)
    assert report.supported
    assert report.estimate is not None
    assert {layer.name for layer in report.layers} >= {"model.layers.0.mlp.up_proj", "lm_head"}
