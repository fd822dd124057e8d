"""Conversations by a model's own template: the tokens of transformers, and the loss on answers alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file
from transformers import PreTrainedTokenizerFast

from pockengine.errors import DataError, PockError
from pockengine.tokens import Chat, Documents, load_tokenizer, read_chat_folder, read_documents
from pockengine.tokens.chat import folder as chat_folder
from tests.compiler.cli.command import pock as pock_command

from . import chats

VOCABULARY = 1000


def _read(path: Path, *conversations: Any, apart: bool = False, tokenizer: str | None = None) -> Documents:
    words = load_tokenizer(tokenizer or path / "tokenizer.json")
    with Chat(read_chat_folder(path), words, apart=apart) as chat:
        return read_documents([chats.lines(path / "d.jsonl", *conversations)], VOCABULARY, chat=chat)


def _learned(found: Documents) -> list[list[str]]:
    """Of each document, the texts of the runs of tokens that are learned."""
    texts = []
    for begin, end in zip(found.starts[:-1], found.starts[1:], strict=True):
        ids, learned = found.ids[begin:end], found.learned[begin:end]
        borders = np.flatnonzero(np.diff(np.concatenate([[0], learned, [0]])))
        runs = borders.reshape(-1, 2)
        texts.append([chats.tokenizer().decode(ids[a:b].tolist(), skip_special_tokens=False) for a, b in runs])
    return texts


@pytest.mark.parametrize("pieces", [False, True])
@pytest.mark.parametrize("form", chats.MARKED)
def test_tokens_and_mask_are_those_of_transformers(form: str, pieces: bool, tmp_path: Path) -> None:
    """With generation blocks by the template's own word, and without them by comparing, alike."""
    words, marked = chats.tokenizer(pieces), chats.MARKED[form]
    theirs = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", chat_template=marked)
    wanted = theirs.apply_chat_template(chats.TALK, return_dict=True, return_assistant_tokens_mask=True)
    for template in (marked, chats.FORMS[form]):
        found = _read(chats.folder(tmp_path, template, pieces=pieces), chats.TALK)
        assert found.ids.tolist() == wanted["input_ids"]
        assert found.learned.tolist() == [bool(one) for one in wanted["assistant_masks"]]
    assert 0 < sum(wanted["assistant_masks"]) < len(wanted["input_ids"])


@pytest.mark.parametrize("form", chats.FORMS)
def test_each_answer_is_learned_with_the_end_of_its_turn_and_nothing_else(form: str, tmp_path: Path) -> None:
    answers = [one["content"] for one in chats.TALK[1::2]]
    path, end = chats.folder(tmp_path, chats.FORMS[form]), chats.ENDS[form]
    (runs,) = _learned(_read(path, chats.TALK))
    assert [one.replace("\n", "").strip() for one in runs] == [one.strip() + end for one in answers]
    apart = _learned(_read(path, chats.TALK, apart=True))
    assert apart == [[one] for one in runs]


def test_bytes_are_tokens_of_a_template_too(tmp_path: Path) -> None:
    found = _read(chats.folder(tmp_path, chats.CHATML), chats.TALK[:2], tokenizer="bytes")
    learned = bytes(found.ids[found.learned].astype(np.uint8).tolist()).decode()
    assert learned == chats.TALK[1]["content"] + "<|im_end|>"


def test_sharegpt_is_the_same_conversation(tmp_path: Path) -> None:
    path = chats.folder(tmp_path, chats.CHATML)
    names = {"user": "human", "assistant": "gpt"}
    shared = {"conversations": [{"from": names[one["role"]], "value": one["content"]} for one in chats.TALK]}
    ours, theirs = _read(path, chats.TALK), _read(path, shared)
    assert ours.ids.tolist() == theirs.ids.tolist() and ours.learned.tolist() == theirs.learned.tolist()
    system = _read(path, [{"role": "system", "content": "Be brief."}, *chats.TALK])
    assert _read(path, shared | {"system": "Be brief."}).ids.tolist() == system.ids.tolist()
    assert _read(path, shared | {"system": ""}).ids.tolist() == ours.ids.tolist()


def test_an_answer_laid_out_otherwise_in_the_middle_is_refused_or_learned_by_itself(tmp_path: Path) -> None:
    path = chats.folder(tmp_path, chats.THINKING)
    with pytest.raises(DataError, match=r"line 1: message 2 \(assistant\) is not laid out the same.*--each-answer"):
        _read(path, chats.TALK)
    found = _learned(_read(path, chats.TALK, apart=True))
    assert found == [[f"<think>\n\n</think>\n\n{one['content']}<|im_end|>"] for one in chats.TALK[1::2]]


def test_a_template_without_a_generation_prompt_learns_no_header(tmp_path: Path) -> None:
    found = _learned(_read(chats.folder(tmp_path, chats.NO_PROMPT), chats.TALK))
    assert found == [[one["content"] + "<|im_end|>" for one in chats.TALK[1::2]]]


def test_a_generation_prompt_that_the_answer_does_not_begin_with_is_refused(tmp_path: Path) -> None:
    path = chats.folder(tmp_path, chats.CHATML.replace("assistant\\n'", "assistant\\n<think>'"))
    with pytest.raises(DataError, match=r"message 2 \(assistant\) does not begin behind .*{% generation %}"):
        _read(path, chats.TALK)


def test_calls_of_tools_are_answers_and_tools_choose_the_template(tmp_path: Path) -> None:
    calls = "m.content if m.content else '<call>' + m.tool_calls | tojson + '</call>'"
    tools = "{{ tools | tojson }}" + chats.CHATML.replace("+ m.content +", f"+ ({calls}) +")
    listed = [{"name": "default", "template": chats.CHATML}, {"name": "tool_use", "template": tools}]
    call = {"role": "assistant", "content": None, "tool_calls": [{"name": "add", "arguments": {"a": 1}}]}
    line = {"messages": [*chats.TALK[:1], call], "tools": [{"name": "add"}]}
    for form in (line["tools"], json.dumps(line["tools"])):
        assert _learned(_read(chats.folder(tmp_path, listed), line | {"tools": form})) == [
            ['<call>[{"name": "add", "arguments": {"a": 1}}]</call><|im_end|>']
        ]


def test_a_file_of_its_own_comes_before_the_configuration(tmp_path: Path) -> None:
    path = chats.folder(tmp_path, "{{ raise_exception('not this one') }}")
    (path / "chat_template.jinja").write_text(chats.CHATML)
    assert len(_learned(_read(path, chats.TALK))[0]) == 2


def test_an_older_folder_has_its_special_tokens_in_a_file_of_their_own(tmp_path: Path) -> None:
    path = chats.folder(tmp_path, chats.MISTRAL)
    (path / "special_tokens_map.json").write_text(json.dumps({"eos_token": {"content": "<|eot_id|>"}}))
    config = json.loads((path / "tokenizer_config.json").read_text())
    assert _learned(_read(path, chats.TALK))[0][1] == " e<|eot_id|>"
    (path / "tokenizer_config.json").write_text(json.dumps(config | {"added_tokens_decoder": {}}))
    assert _learned(_read(path, chats.TALK))[0][1] == " e</s>"


def test_variables_are_the_templates_own(tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    thinks = "{{ ('?' if think else '!') + greeting | default('') }}" + chats.CHATML
    path, file = chats.folder(tmp_path / "m", thinks), chats.lines(tmp_path / "d.jsonl", chats.TALK)
    whole = ("data", "tokens", file, "-o", tmp_path / "d", "--length", 200, "--vocabulary", VOCABULARY)

    def said(*more: object) -> tuple[int, str, str]:
        return pock_command(*whole, *more, capsys=capsys, monkeypatch=monkeypatch)

    texts: list[str] = []
    for set_to in (["think=true"], ["think=false"], ["think=false", "greeting=hi"]):
        assert said("--chat", path, *(word for one in set_to for word in ("--chat-variable", one)))[0] == 0
        texts.append(
            chats.tokenizer().decode(load_file(tmp_path / "d")["input_ids"][0].tolist(), skip_special_tokens=False)
        )
    assert [one.partition("user")[0].strip() for one in texts] == ["?<|im_start|>", "!<|im_start|>", "!hi<|im_start|>"]
    for given, reason in {
        "thinks=true": "reads no variable 'thinks'; those that it reads: greeting, think",
        "messages=[]": "'messages' comes from each conversation and cannot be set",
        "think": "--chat-variable is NAME=VALUE, such as enable_thinking=false, not 'think'",
    }.items():
        code, _, err = said("--chat", path, "--chat-variable", given)
        assert code == 2 and reason in err
    code, _, err = said("--tokenizer", "bytes", "--chat-variable", "think=true")
    assert code == 2 and "--chat-variable goes with --chat" in err


FOLDERS = {
    "none": (None, "has no chat template, neither chat_template.jinja nor"),
    "a number": (3, "is a text, or a list of"),
    "no default": ([{"name": "rag", "template": "x"}], "none is called 'default': rag"),
    "too long": ("x" * (chat_folder.MOST_TEMPLATE + 1), "has more than 262144 characters"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_without_a_template_is_refused(name: str, tmp_path: Path) -> None:
    template, reason = FOLDERS[name]
    with pytest.raises(DataError) as error:
        read_chat_folder(chats.folder(tmp_path, template))
    assert reason in str(error.value)


def test_broken_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        read_chat_folder(tmp_path / "none")
    (tmp_path / "tokenizer_config.json").write_text('{"chat_template": ')
    with pytest.raises(DataError, match="is not JSON, or it is truncated"):
        read_chat_folder(tmp_path)
    with pytest.raises(DataError, match="it is no Jinja, line 1: "):
        Chat(read_chat_folder(chats.folder(tmp_path, "{% for %}")), load_tokenizer("bytes"))


REFUSED: dict[str, tuple[Any, str]] = {
    "an unknown role": ([{"role": "model", "content": "a"}], "a message has a role (system, user, assistant, tool)"),
    "another speaker": ({"conversations": [{"from": "me", "value": "a"}]}, "has a 'from' (human, gpt, "),
    "the template's own word": ([{"role": "system", "content": "a"}], "refuses the conversation: System role not"),
    "an empty answer": ([chats.TALK[0], {"role": "assistant", "content": " \n"}], "message 2 is an empty answer"),
    "no message": ([], "the conversation has no message"),
    "token ids": ([{"role": "user", "content": [1]}], "message 1: with --chat its content is a text"),
    "no conversation": ({"text": "a"}, "with --chat a line is a conversation"),
    "tools that are none": ({"messages": chats.TALK, "tools": 3}, '"tools" is a list'),
    "tools that are no JSON": ({"messages": chats.TALK, "tools": "[{"}, "or such a list as a text of JSON"),
    "a system that is none": ({"conversations": [], "system": 3}, '"system" is a text'),
    "no character": ([{"role": "user", "content": "\ufdd0"}], "message 1 has a code point of U+FDD0"),
    "half a character": ([{"role": "user", "content": "\ud800"}, chats.TALK[1]], "surrogates not allowed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_its_line(name: str, tmp_path: Path) -> None:
    line, reason = REFUSED[name]
    with pytest.raises(DataError) as error:
        _read(chats.folder(tmp_path, chats.GEMMA), chats.TALK, line)
    assert "d.jsonl, line 2: " in str(error.value) and reason in str(error.value)


def test_the_library_is_asked_for_where_it_is_missing_or_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda name: "3.1.5")
    with pytest.raises(PockError, match=r"jinja2 3.1.6 or newer: pip install 'pockengine\[text\]'"):
        Chat(read_chat_folder(chats.folder(tmp_path, chats.CHATML)), load_tokenizer("bytes"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    path, output = chats.folder(tmp_path / "m", chats.CHATML), tmp_path / "d.safetensors"
    file = chats.lines(tmp_path / "d.jsonl", chats.TALK)
    whole = ("data", "tokens", file, "-o", output, "--vocabulary", VOCABULARY, "--chat", path)

    def said(*more: object) -> tuple[int, str, str]:
        return pock_command(*whole, *more, capsys=capsys, monkeypatch=monkeypatch)

    code, out, err = said("--length", 200, "--json")
    assert code == 0 and json.loads(out)["cut"] == json.loads(out)["left_off"] == 0, err
    count = json.loads(out)["tokens"]
    labels = load_file(output)["labels"][0]
    text = chats.tokenizer().decode(labels[labels >= 0].tolist(), skip_special_tokens=False)
    assert text == "".join(one["content"] + "<|im_end|>" for one in chats.TALK[1::2])
    code, out, err = said("--length", count - 4, "--json")
    report = json.loads(out)
    assert (report["sequences"], report["cut"], report["left_off"], report["tokens"]) == (1, 1, 4, count - 4)
    code, out, err = said("--length", count - 4)
    assert "1 documents are longer than a sequence and were cut: the 4 tokens behind the cut were left off" in out
    code, out, err = said("--length", count - 4, "--long", "split", "--json")
    assert json.loads(out)["left_off"] == 0 and json.loads(out)["tokens"] == count
    code, out, err = said("--length", 4)
    assert code == 2 and "no document has a token to be learned within the 4 tokens of a sequence" in err
    code, out, err = said("--length", 9, "--begin", 1)
    assert code == 2 and "leave out --begin and --end" in err
    code, out, err = said("--length", 9, "--long", "drop")
    assert code == 2 and "--long is split or cut, not 'drop'" in err
    chats.lines(file, chats.TALK[:1])
    code, out, err = said("--length", 9)
    assert code == 2 and "d.jsonl: none of its conversations has an answer by the assistant" in err
    file.write_text('{"messages": [\n')
    code, out, err = said("--length", 9)
    assert code == 2 and "d.jsonl, line 1: it is not JSON" in err
