"""Graph -> Graph functions, as records in lists: `pipeline.py` says what runs in which order."""

from .chunks import chunk_rows, chunk_rows_finely
from .cleanup import cse, fold
from .decompress import decompress_all_inside, decompress_inside
from .demand import only_demanded
from .factor import factor_gradients
from .fuse import fuse, separate
from .heads import heads_inside
from .layout import channels_last
from .masks import masks_as_bits
from .order import reorder
from .pipeline import ALGEBRA, PASSES, PREPARING, SHAPING, SPARING, expand_composites, optimise, tidy
from .products import merge_products
from .prologues import compute_while_packing
from .recognise import recognise
from .recompute import recompute_elementwise
from .record import NOTHING, Claims, Context, Form, Pass
from .saving import save_least
from .simplify import simplify
from .sparse import push_scale, push_select, scale_gradient_from_weights
from .streamed_embeddings import StreamedEmbedding, embeddings_to_stream, stream_embeddings
from .unfused import Unfused, unfused_neighbours
from .winograd_marks import allow_winograd

__all__ = [
    "ALGEBRA",
    "NOTHING",
    "PASSES",
    "PREPARING",
    "SHAPING",
    "SPARING",
    "Claims",
    "Context",
    "Form",
    "Pass",
    "StreamedEmbedding",
    "Unfused",
    "allow_winograd",
    "channels_last",
    "chunk_rows",
    "chunk_rows_finely",
    "compute_while_packing",
    "cse",
    "decompress_all_inside",
    "decompress_inside",
    "embeddings_to_stream",
    "expand_composites",
    "factor_gradients",
    "fold",
    "fuse",
    "heads_inside",
    "masks_as_bits",
    "merge_products",
    "only_demanded",
    "optimise",
    "push_scale",
    "push_select",
    "recognise",
    "recompute_elementwise",
    "reorder",
    "save_least",
    "scale_gradient_from_weights",
    "separate",
    "simplify",
    "stream_embeddings",
    "tidy",
    "unfused_neighbours",
]
