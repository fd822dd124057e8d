"""A share of a run's data that the device holds out: as it is asked for, and as the executable reports it."""

from pydantic import BaseModel, ConfigDict, Field


class HeldShare(BaseModel):
    """A share of the dataset that is not trained on but evaluated during training, by the device itself."""

    share: float = Field(gt=0, lt=1, allow_inf_nan=False, description="Of each class, give or take a sample.")
    seed: int = Field(default=0, ge=0, le=2**53, description="Draws the samples; `seed` of the run does not.")
    every: int = Field(default=0, ge=0, le=10_000_000, description="Steps between evaluations; 0: after each epoch.")
    patience: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="End after so many evaluations without a better one, with the best weights; 0: after all steps.",
    )


class HeldOutReport(BaseModel):
    """What the device held out: `samples` of the dataset's `of`."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False)

    share: float | None = None
    seed: int | None = None
    samples: int | None = None
    of: int | None = None
    by_class: bool | None = None
