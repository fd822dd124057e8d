"""What happens to the samples that do not fill the last batch of an epoch."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import RecipeError, nearest
from .fields import describe
from .losses.kinds import Loss, OwnLoss

LAST_BATCH = ("wrap", "drop", "partial")


def last_batch_of(value: object, where: str = "last_batch") -> str:
    """`wrap` fills the batch with the first samples of the next epoch, `drop` leaves them out of this epoch, `partial`
    pads the batch with samples that do not count. Raises RecipeError."""
    if value not in LAST_BATCH:
        hint = nearest(str(value), LAST_BATCH)
        raise RecipeError(f"{where} must be one of {', '.join(LAST_BATCH)}, not {describe(value)}{hint}")
    return str(value)


def refuse_padding(losses: Sequence[Loss], batch_norm: str, accumulate: int) -> None:
    """Raise RecipeError where a padded batch would change the result."""
    reason = _against_padding(losses, batch_norm, accumulate)
    if reason:
        raise RecipeError(f"last_batch: partial pads the batch, and {reason}; use last_batch: drop")


def _against_padding(losses: Sequence[Loss], batch_norm: str, accumulate: int) -> str | None:
    if batch_norm == "train":
        return "with batch_norm: train the padding would enter the batch's statistics"
    if accumulate > 1:
        return f"the gradients of {accumulate} accumulated batches would no longer count their samples alike"
    if any(isinstance(loss, OwnLoss) for loss in losses):
        return "a loss that the model computes itself would count the padding"
    return None
