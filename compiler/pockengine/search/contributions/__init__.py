"""What training each parameter brings: measured, by Fisher information, or by the ratio of gradient to weight."""

from .contributions import Contributions
from .file import load, save
from .fisher import CRITERIA, fisher
from .gradients import GradientStatistics, gradient_statistics
from .importance import WAYS, channel_importance
from .measured import Training, measure
from .ranks import rank_correlation
from .ratio import gradient_ratio
from .trainer import Trained, Trainer
from .work import Data, Work

__all__ = [
    "CRITERIA",
    "WAYS",
    "Contributions",
    "Data",
    "GradientStatistics",
    "Trained",
    "Trainer",
    "Training",
    "Work",
    "channel_importance",
    "fisher",
    "gradient_ratio",
    "gradient_statistics",
    "load",
    "measure",
    "rank_correlation",
    "save",
]
