"""The architectures of the installed `transformers`: every model type for which one of its auto classes names a class.

One class stands for a model type: that of the first task in `TASKS` which has one, so that a head is trained wherever
there is one; the bare model else.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from transformers.models.auto import modeling_auto

from .special import CLASSES

TASKS = (
    "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ", "SEQ_TO_SEQ_CAUSAL_LM", "CAUSAL_LM", "MASKED_LM", "CTC",
    "RNNT", "TDT", "IMAGE_CLASSIFICATION", "OBJECT_DETECTION", "UNIVERSAL_SEGMENTATION", "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION", "IMAGE_MATTING", "POSE_ESTIMATION", "VIDEO_CLASSIFICATION", "AUDIO_CLASSIFICATION",
    "TIME_SERIES_PREDICTION", "TABLE_RECOGNITION", "TEXT_RECOGNITION", "KEYPOINT_MATCHING", "KEYPOINT_DETECTION",
    "VISUAL_QUESTION_ANSWERING", "TEXT_TO_SPECTROGRAM", "TEXT_TO_WAVEFORM", "MASK_GENERATION", "RETRIEVAL", "DECISION",
    "SEQUENCE_CLASSIFICATION",
)  # fmt: skip
"""Tasks of the auto classes, the most telling head first."""


@dataclass(frozen=True)
class Architecture:
    """A model type of `transformers` and the class that stands for it."""

    model_type: str
    class_name: str


@cache
def architectures() -> dict[str, Architecture]:
    """By model type, in alphabetical order."""
    tables = {
        name.removeprefix("MODEL_").removeprefix("FOR_").removesuffix("MAPPING_NAMES").rstrip("_"): table
        for name, table in vars(modeling_auto).items()
        if name.startswith("MODEL_") and name.endswith("MAPPING_NAMES")
    }
    order = [*TASKS, "", *(task for task in sorted(tables) if task and task not in TASKS)]
    found = {model_type: Architecture(model_type, name) for model_type, name in CLASSES.items()}
    for task in order:
        for model_type, names in tables[task].items():
            name = names if isinstance(names, str) else names[0]
            found.setdefault(model_type, Architecture(model_type, name))
    return dict(sorted(found.items()))
