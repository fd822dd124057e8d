"""A compiled training step against the user's own framework: losses, gradients, and what becomes of each tensor."""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .api import from_jax as from_jax
    from .api import from_keras as from_keras
    from .api import from_torch as from_torch
    from .api import verify as verify
    from .comparison import Options as Options
    from .files import verify_file as verify_file
    from .judge import Change as Change
    from .judge import Verdict as Verdict
    from .judge import compare_changes as compare_changes
    from .judge import compare_losses as compare_losses
    from .report import Report as Report
else:
    __getattr__ = lazily(
        __name__,
        {
            "api": "from_jax from_keras from_torch verify",
            "comparison": "Options",
            "files": "verify_file",
            "judge": "Change Verdict compare_changes compare_losses",
            "report": "Report",
        },
    )
