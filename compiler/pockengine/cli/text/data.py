"""`pock data tokens`: documents as a language model's dataset."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...errors import PockError
from ..options import Json

if TYPE_CHECKING:
    from ...tokens import Chat, Layout, Long, Statistics, Tokenizer

data_app = typer.Typer(name="data", help="Make datasets.", no_args_is_help=True, rich_markup_mode=None)

TokenizerName = Annotated[
    str | None,
    typer.Option("--tokenizer", metavar="{bytes|FILE.json}", help="For text: UTF-8 bytes as ids, or a tokenizer.json."),
]
ChatFolder = Annotated[
    Path | None,
    typer.Option(
        "--chat", metavar="FOLDER", help="A model's folder: its chat template lays out messages, its tokenizer reads."
    ),
]
ChatVariables = Annotated[
    list[str] | None,
    typer.Option(
        "--chat-variable",
        metavar="NAME=VALUE",
        help="What the chat template reads beside the messages, such as enable_thinking=false; may be repeated.",
    ),
]
EachAnswer = Annotated[
    bool, typer.Option("--each-answer", help="With --chat: each answer is a document, with what comes before it.")
]
LongOnes = Annotated[
    str | None,
    typer.Option(
        "--long",
        metavar="{split|cut}",
        help="Documents longer than a sequence: all pieces, or the beginning. Default: split; with --chat, cut.",
    ),
]


@data_app.callback()
def _group() -> None:
    """Make datasets."""


@data_app.command("tokens")
def tokens_command(
    files: Annotated[list[Path], typer.Argument(metavar="FILE.jsonl…", help="Documents, one JSON object a line.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="D.safetensors", help="The dataset to write.")],
    model: Annotated[
        Path | None, typer.Option("--for", metavar="OUT.pock", help="What it is to train: says all of the next five.")
    ] = None,
    length: Annotated[int | None, typer.Option("--length", min=2, help="Tokens of a sequence.")] = None,
    vocabulary: Annotated[int | None, typer.Option("--vocabulary", min=1, help="Token ids are below this.")] = None,
    inputs: Annotated[
        str,
        typer.Option("--inputs", metavar="A,B", help="Of input_ids, position_ids, attention_mask, document_ids."),
    ] = "input_ids",
    labels: Annotated[str, typer.Option("--labels", metavar="NAME", help="What the target is called.")] = "labels",
    ahead: Annotated[
        bool,
        typer.Option("--ahead", help="Labels are the next tokens, for cross_entropy: causal_lm looks ahead."),
    ] = False,
    tokenizer: TokenizerName = None,
    begin: Annotated[
        str | None, typer.Option("--begin", metavar="ID", help="Before each document: an id or a token's name.")
    ] = None,
    end: Annotated[str | None, typer.Option("--end", metavar="ID", help="Behind each document; it is learned.")] = None,
    padding: Annotated[int, typer.Option("--padding", min=0, metavar="ID", help="Where there is no token.")] = 0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the order, and of what shares a sequence.")] = 0,
    unpacked: Annotated[bool, typer.Option("--unpacked", help="One document a sequence.")] = False,
    chat: ChatFolder = None,
    chat_variable: ChatVariables = None,
    each_answer: EachAnswer = False,
    long: LongOnes = None,
    json: Json = False,
) -> None:
    """Pack documents of text or token ids into sequences; only answers are learned.

    A line is {"text": …}, {"prompt": …, "answer": …}, {"messages": [{"role": …, "content": …}, …]} or {"tokens": […]}.
    Each text may be a list of token ids instead. Of prompts, and of messages by others than the assistant, nothing is
    learned: their labels are -100. ShareGPT's {"conversations": [{"from": …, "value": …}, …]} is read, too. With
    --chat, all lines are conversations, and answers are learned with the token that ends their turn."""
    from ...tokens import Contents, Ends, load_tokenizer, read_documents, token_dataset, token_id

    layout, kept = _layout(model, length, vocabulary, (inputs, labels, ahead)), _kept(long, chat)
    if chat is None and (each_answer or chat_variable):
        raise PockError(f"{'--each-answer' if each_answer else '--chat-variable'} goes with --chat")
    if chat is not None and (begin is not None or end is not None):
        raise PockError("with --chat the template begins and ends documents: leave out --begin and --end")
    if chat is not None and tokenizer is None:
        tokenizer = str(chat / "tokenizer.json")
    words = load_tokenizer(tokenizer) if tokenizer is not None else None
    marks = ((begin, "--begin"), (end, "--end"))
    ends = Ends(*(None if text is None else token_id(text, words, option) for text, option in marks))
    with _chat(chat, words, chat_variable or [], apart=each_answer) as laid_out:
        documents = read_documents(files, layout.vocabulary, words, ends, laid_out)
    dataset = token_dataset(documents, layout, Contents(seed, not unpacked, padding, kept))
    dataset.save(output)
    _show(dataset.statistics, output, as_json=json)


def _layout(model: Path | None, length: int | None, vocabulary: int | None, said: tuple[str, str, bool]) -> Layout:
    from ...artifact import Artifact
    from ...tokens import Layout, layout_of

    if model is not None:
        if length or vocabulary or said != ("input_ids", "labels", False):
            raise PockError("--for says what the dataset consists of: leave out --length and the four after it")
        return layout_of(Artifact.open(model).manifest)
    if length is None or vocabulary is None:
        raise PockError("say what the dataset is for: --for OUT.pock, or --length and --vocabulary")
    inputs, labels, ahead = said
    return Layout(length, vocabulary, tuple(inputs.split(",")), labels, ahead)


def _kept(said: str | None, chat: Path | None) -> Long:
    from ...tokens import Long

    if said is None:
        return Long.SPLIT if chat is None else Long.CUT
    if said not in list(Long):
        raise PockError(f"--long is {' or '.join(Long)}, not '{said[:40]}'")
    return Long(said)


def _chat(
    folder: Path | None, words: Tokenizer | None, said: list[str], *, apart: bool
) -> AbstractContextManager[Chat | None]:
    from ...tokens import Chat, read_chat_folder

    if folder is None or words is None:
        return nullcontext()
    return Chat(read_chat_folder(folder), words, apart=apart, variables=dict(map(_variable, said)))


def _variable(said: str) -> tuple[str, Any]:
    """A name and its value: JSON, else the text as it is."""
    import json

    name, equals, value = said.partition("=")
    if not equals or not name.isidentifier():
        raise PockError(f"--chat-variable is NAME=VALUE, such as enable_thinking=false, not '{said[:60]}'")
    try:
        return name, json.loads(value)
    except (RecursionError, ValueError):
        return name, value


def _show(statistics: Statistics, output: Path, *, as_json: bool) -> None:
    import json

    if as_json:
        print(json.dumps({"dataset": str(output), **statistics.to_mapping()}))
        return
    s = statistics
    print(f"saved {output}")
    print(f"{s.sequences} sequences of {s.length} tokens out of {s.documents} documents, {s.padding:.1%} padding")
    print(f"{s.tokens} tokens, of which {s.learned:.1%} are learned")
    if s.cut:
        behind = f": the {s.left_off} tokens behind the cut were left off" if s.left_off else ""
        print(f"{s.cut} documents are longer than a sequence and were cut{behind}")
    if s.left_out:
        print(f"{s.left_out} documents, or pieces of long ones, have nothing to learn and were left out")
    if not s.apart:
        print(
            "documents that share a sequence see those before them: the model has no position_ids (or use --unpacked)"
        )
