"""Tiny configurations of the architectures of `transformers`: two layers, widths of 64, images of 32 x 32.

Every field of a configuration, nested ones included, is shrunk by the first rule that its name matches; what no rule
can know stands in `special.toml`. All architectures get the same few sizes, so that most of their kernels are the same
and come from the cache. Knows nothing of inputs or of training.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from .special import FIELDS, KEPT

WIDTH = 64
HEADS = 4
HEAD_WIDTH = WIDTH // HEADS
LAYERS = 2
VOCABULARY = 128
POSITIONS = 64
SIDE = 32
"""Pixels of an image."""

_TOKENS = 32
"""Ids at the end of the vocabulary that special tokens get."""
_OWN = {field.name for field in dataclasses.fields(PreTrainedConfig)}
_TOKEN = re.compile(r"(.*_token|bos|eos|pad|cls|sep|mask|unk|decoder_start_token|bo[ia]|eo[ia])_(id|index)")

Rule = int | Callable[[int], int]


def _same(value: int) -> int:
    return value


def _at_most(limit: int) -> Callable[[int], int]:
    return lambda value: min(value, limit)


def _rules(*rules: tuple[str, Rule]) -> tuple[tuple[re.Pattern[str], Rule], ...]:
    return tuple((re.compile(pattern), rule) for pattern, rule in rules)


_INTEGERS = _rules(
    (r"(num_)?mel_bins|.*num_mel_bins|n_mels|mel_dim|model_in_dim|input_feat_size", 16),
    (r".*vocab_size.*|num_embeddings|.*codebook_size", _at_most(VOCABULARY)),
    (r"max_window_layers|num_feature_levels|num_residual_layers|.*_every_n_layers|num_labels|.*factor", _same),
    (r".*_ids?|.*_index|.*kernel.*|.*stride.*|num_hash.*", _same),
    (r"insert_layer_id|n_group|topk_group|(mamba_)?n_groups", 1),
    (r"first_k_dense_replace|num_dense_layers|num_nextn_predict_layers|num_kv_shared_layers", _at_most(1)),
    (r"(.*_)?(num_)?(hidden_)?layers|(.*_)?depth|n_layers?|num_blocks", _at_most(LAYERS)),
    (r"linear_num_key_heads|(.*_)?(num_)?(key_value|kv)_heads|kv_n_heads", _at_most(2)),
    (r".*head_dim|.*head_size|d_kv|d_head|dim_head|mamba_d_head|.*key_dim|.*_head_width", _at_most(HEAD_WIDTH)),
    (r"mamba_(n|num)_heads|n_mamba_heads", _same),
    (r"(.*_)?n?(um)?_?(attention_)?heads?", _at_most(HEADS)),
    (r"(.*_)?(num_experts|n_routed_experts|num_local_experts|num_shared_experts)", _at_most(4)),
    (r"num_experts_per_tok|moe_topk|moe_k|n_shared_experts|moe_top_k", _at_most(2)),
    (r"window_size", lambda value: SIDE if value > WIDTH else min(value, 4)),
    (r"sliding_window(_size)?|local_attention|attention_window", _at_most(4)),
    (r"n_window(_infer)?", lambda value: 8 if value <= 100 else 16),
    (r"(attention_|mamba_)?chunk_size|index_topk|block_size", _at_most(8)),
    (r"patch_size|encoder_stride", lambda value: value if value <= 4 else 8),
    (r"(pretrain_|input_)?image_size", SIDE),
    (r"num_queries|num_proposals|two_stage_num_proposals|num_denoising", _at_most(5)),
    (r"num_frames|num_codebooks|num_quantizers|n_codebooks", _at_most(4)),
    (r".*d_state|.*state_size|time_step_rank|.*dt_rank|.*lora_rank", _at_most(16)),
    (r"sampling_rate|sample_rate|.*temperature|.*_base|.*theta|.*_coefficient|log_.*", _same),
    (r".*", _at_most(WIDTH)),
)
"""Pattern of a field's whole name -> its value, or what becomes of the value. The first that matches decides."""

_GROUPED = ("num_key_value_heads", "num_kv_heads")
"""Fewer than there are heads only where they are in the original."""

_LISTS = _rules(
    (r"(pretrain_)?image_size|input_size", SIDE),
    (r"depths|num_block_repeats|stage_num.*|blocks_per_stage|n_attn_blocks", _at_most(1)),
    (r"num_(attention_)?heads(_per_stage)?", 2),
    (r".*(kernel|stride|dilation|pad|rate|ratio|factor|token|size_per|shape|patch).*", _same),
)


def configuration(model_type: str) -> Any:
    """The tiny configuration of a model type; raises what `transformers` raises where sizes do not fit together."""
    made = _shrunk(CONFIG_MAPPING[model_type](), {}, _Tokens())
    for config in nested(made):
        with contextlib.suppress(AttributeError):
            config.use_cache = False
    return made


def nested(config: Any) -> list[Any]:
    """A configuration and all within it."""
    parts = [part for part in vars(config).values() if isinstance(part, PreTrainedConfig)]
    return [config, *(inner for part in parts for inner in nested(part))]


class _Tokens:
    """Ids of special tokens from the end of the vocabulary: the same for a name wherever it stands."""

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}

    def of(self, name: str, value: int) -> int:
        if value < VOCABULARY - _TOKENS:
            return value
        return self._ids.setdefault(name.rpartition("_")[0], VOCABULARY - 1 - len(self._ids))


def _shrunk(default: Any, given: Mapping[str, Any], tokens: _Tokens) -> Any:
    """The configuration with every field shrunk but those that `special.py` or `given` gives (of nested
    configurations as mappings)."""
    kind = type(default)
    if (other := given.get("model_type", kind.model_type)) != kind.model_type:
        return _shrunk(CONFIG_MAPPING[other](), {k: v for k, v in given.items() if k != "model_type"}, tokens)
    given = {**FIELDS.get(kind.model_type, {}), **given}
    if kind.model_type in KEPT:
        return _with_outputs(kind(**given), default, given)
    declared = {field.name: field for field in dataclasses.fields(kind)}
    layers = next((vars(default)[name] for name in ("num_hidden_layers", "num_layers") if name in vars(default)), None)
    layers = None if "depths" in vars(default) else layers
    fields: dict[str, Any] = {}
    for name, value in vars(default).items():
        if isinstance(value, PreTrainedConfig):
            inner = given.get(name, {})
            fields[name] = _shrunk(value, inner, tokens) if isinstance(inner, Mapping) else inner
        elif name == "rope_parameters" and name not in given:
            fields[name] = _rope(value, given.get("head_dim", HEAD_WIDTH))
        elif name in given or name in _OWN or name not in declared or declared[name].default is None:
            continue  # given, or computed from the other fields
        elif name in _GROUPED and value == vars(default).get("num_attention_heads"):
            fields[name] = HEADS
        elif isinstance(value, list | tuple):
            fields[name] = type(value)(_listed(name, value, layers, tokens))
        else:
            fields[name] = _single(name, value, tokens)
    outputs = vars(default).get("_out_indices")
    if isinstance(layers, int) and outputs and len(outputs) > 1 and "out_indices" not in given:
        fields["num_hidden_layers"] = len(outputs)
        fields["out_indices"] = list(range(1, len(outputs) + 1))
    made = kind(**fields, **{name: value for name, value in given.items() if name not in fields})
    return _with_outputs(made, default, given)


def _with_outputs(made: Any, default: Any, given: Mapping[str, Any]) -> Any:
    """A backbone of as many stages as before gives the outputs of the same ones."""
    if "_out_indices" in vars(default) and "out_indices" not in given and made.stage_names == default.stage_names:
        made.out_indices = default.out_indices
    return made


def _single(name: str, value: Any, tokens: _Tokens) -> Any:
    if not isinstance(value, int) or isinstance(value, bool):
        return value
    if _TOKEN.fullmatch(name):
        return tokens.of(name, value)
    return _by(_INTEGERS, name, value)


def _by(rules: tuple[tuple[re.Pattern[str], Rule], ...], name: str, value: int) -> int:
    rule = next(rule for pattern, rule in rules if pattern.fullmatch(name))
    return rule(value) if callable(rule) else rule


def _listed(name: str, given: Any, layers: Any, tokens: _Tokens) -> list[Any]:
    """One value a layer: those of the first layer, and of the first that differs. Indices of layers: those that are
    left. Widths: so that none is above `WIDTH`, in proportion."""
    values: list[Any] = list(given)
    if len(values) == layers and layers > LAYERS:
        return [values[0], next((value for value in values if value != values[0]), values[0])]
    if not values or not all(type(value) is int for value in values):
        return values
    if _TOKEN.fullmatch(name):
        return [tokens.of(name, value) for value in values]
    if re.fullmatch(r".*(index(es)?|indices|idxs|_layers|layer_ids|hook_ids)", name):
        return sorted({min(value, LAYERS - 1) for value in values}) if layers else values
    if any(pattern.fullmatch(name) for pattern, _ in _LISTS):
        return [_by(_LISTS, name, value) for value in values]
    share = max(1.0, max(values) / WIDTH)
    return [value if share == 1.0 or value < 8 else max(8, round(value / share / 8) * 8) for value in values]


def _rope(value: Any, head_width: int) -> Any:
    """Rotary parameters for heads of `head_width`: sections and factors as long as there are frequencies left."""
    if not isinstance(value, Mapping):
        return value
    count = int(head_width * value.get("partial_rotary_factor", 1.0)) // 2
    made = {key: _rope(item, head_width) for key, item in value.items()}
    if isinstance(made.get("mrope_section"), list | tuple):
        sections = [max(1, int(part * count / sum(made["mrope_section"]))) for part in made["mrope_section"]]
        made["mrope_section"] = [count - sum(sections[1:]), *sections[1:]]
    for key in ("short_factor", "long_factor"):
        if key in made:
            made[key] = made[key][:count]
    return made
