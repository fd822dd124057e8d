"""Token streams: documents of token ids as the dataset that trains a language model, and text as token ids.

Knows the format of datasets and what an artifact says about itself; nothing of graphs or of compiling."""

from .chat import Chat, read_chat_folder
from .dataset import Contents, Statistics, TokenDataset, token_dataset
from .documents import Documents, Ends, read_documents
from .layout import Layout, layout_of
from .packing import Long
from .tokenizer import Tokenizer, load_tokenizer, token_id

__all__ = [
    "Chat",
    "Contents",
    "Documents",
    "Ends",
    "Layout",
    "Long",
    "Statistics",
    "TokenDataset",
    "Tokenizer",
    "layout_of",
    "load_tokenizer",
    "read_chat_folder",
    "read_documents",
    "token_dataset",
    "token_id",
]
