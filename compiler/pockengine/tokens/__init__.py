"""Token streams: documents of token ids as the dataset that trains a language model, and text as token ids.

Knows the format of datasets and what an artifact says about itself; nothing of graphs or of compiling."""

from .dataset import Contents, Statistics, TokenDataset, token_dataset
from .documents import Documents, Ends, read_documents
from .layout import Layout, layout_of
from .tokenizer import Tokenizer, load_tokenizer, token_id

__all__ = [
    "Contents",
    "Documents",
    "Ends",
    "Layout",
    "Statistics",
    "TokenDataset",
    "Tokenizer",
    "layout_of",
    "load_tokenizer",
    "read_documents",
    "token_dataset",
    "token_id",
]
