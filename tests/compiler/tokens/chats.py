"""Folders with chat templates of the forms that are in use, and a tokenizer trained here."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

CHATML = """\
{% for m in messages %}
{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>' + '\\n' }}
{%- endfor %}
{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"""
LLAMA3 = """\
{{ bos_token }}
{%- for m in messages %}
{{- '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""
MISTRAL = """\
{{ bos_token }}
{%- for m in messages %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('user and assistant take turns') }}{% endif %}
{%- if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}{% else %}{{ ' ' + m.content + eos_token }}{% endif %}
{%- endfor %}"""
GEMMA = """\
{{ bos_token }}
{%- if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}
{%- for m in messages %}
{%- set role = 'model' if m.role == 'assistant' else m.role %}
{{- '<start_of_turn>' + role + '\\n' + m.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""
PHI = """\
{% for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""
THINKING = CHATML.replace(
    "+ m.content +", "+ ('<think>\\n\\n</think>\\n\\n' if loop.last and m.role == 'assistant' else '') + m.content +"
)
"""The last answer alone has thoughts before it, as Qwen 3 lays it out."""
NO_PROMPT = CHATML.partition("{% if")[0]
"""Without a generation prompt: what leads to an answer is in its own message."""

FORMS = {"chatml": CHATML, "llama3": LLAMA3, "mistral": MISTRAL, "gemma": GEMMA, "phi": PHI}
ENDS = {"chatml": "<|im_end|>", "llama3": "<|eot_id|>", "mistral": "</s>", "gemma": "<end_of_turn>", "phi": "<|end|>"}
MARKED = {
    "chatml": CHATML.replace(
        "m.content + '<|im_end|>' + '\\n' }}",
        "'' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
        "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\\n' }}",
    ),
    "mistral": MISTRAL.replace(
        "{% else %}{{ ' ' + m.content + eos_token }}",
        "{% else %}{% generation %}{{ ' ' + m.content + eos_token }}{% endgeneration %}",
    ),
    "gemma": GEMMA.replace(
        "m.content | trim + '<end_of_turn>\\n' }}",
        "'' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<end_of_turn>' }}{% endgeneration %}"
        "{% else %}{{ m.content | trim + '<end_of_turn>' }}{% endif %}{{ '\\n' }}",
    ),
    "llama3": LLAMA3.replace(
        "m['content'] | trim + '<|eot_id|>' }}",
        "'' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim + '<|eot_id|>' }}{% endgeneration %}"
        "{% else %}{{ m.content | trim + '<|eot_id|>' }}{% endif %}",
    ),
}
"""The same texts, with generation blocks."""
_SPECIAL = "<s> </s> <|im_start|> <|im_end|> <|start_header_id|> <|end_header_id|> <|eot_id|> <start_of_turn> "
_SPECIAL += "<end_of_turn> <|end|> <|user|> <|assistant|> [INST] [/INST]"
TALK = [
    {"role": "user", "content": "What is the colour of grass? é"},
    {"role": "assistant", "content": "Green. 🌱  It is green.\n"},
    {"role": "user", "content": "e"},
    {"role": "assistant", "content": "e"},
]


@cache
def tokenizer(pieces: bool = False) -> Tokenizer:
    """Bytes merged by what is frequent here, or pieces of words with bytes for the rest, as SentencePiece makes them;
    and the special tokens of all templates."""
    more: dict[str, Any] = {"initial_alphabet": pre_tokenizers.ByteLevel.alphabet()}
    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    if pieces:
        made, more = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>")), {}
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        more["special_tokens"] = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=400, show_progress=False, **more)
    texts = [one["content"].replace("🌱", "") for one in TALK]
    made.train_from_iterator([*FORMS.values(), *texts] * 3, trainer)
    made.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in _SPECIAL.split()])
    return made


def folder(path: Path, template: Any, *, pieces: bool = False) -> Path:
    """A model's folder; `template` as `tokenizer_config.json` has it, None for none there."""
    path.mkdir(exist_ok=True)
    tokenizer(pieces).save(str(path / "tokenizer.json"))
    said = {"bos_token": "<s>", "eos_token": {"content": "</s>", "special": True}, "add_bos_token": True}
    if template is not None:
        said["chat_template"] = template
    (path / "tokenizer_config.json").write_text(json.dumps(said))
    return path


def lines(path: Path, *conversations: Any) -> Path:
    """A file of conversations: lists of messages, or a line's object."""
    objects = (one if isinstance(one, dict) else {"messages": one} for one in conversations)
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    return path
