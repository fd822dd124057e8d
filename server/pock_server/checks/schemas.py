"""Bodies of the questions on models, and of their answers. The answers come from a child that read a user's file, so
each is checked and bounded before it is passed on."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from pock_server.artifacts.schemas import Phase
from pock_server.http.fields import RecipeObject
from pock_server.recipes.text import MAX_CHARACTERS

_Text = Annotated[str, Field(max_length=2000)]
_Name = Annotated[str, Field(max_length=1000)]
_Count = Annotated[int, Field(ge=0, le=2**63 - 1)]
_Shape = Annotated[list[_Count], Field(max_length=64)]

RecipeText = Annotated[
    RecipeObject | Annotated[str, Field(max_length=MAX_CHARACTERS)], Field(union_mode="left_to_right")
]
Threads = Annotated[int | None, Field(ge=1, le=256)]
TargetName = Annotated[str, Field(min_length=1, max_length=100)]


class _Told(BaseModel):
    """Part of an answer: what is not known is dropped."""

    model_config = ConfigDict(extra="ignore")


class ApproximationIn(BaseModel):
    """A recipe and a device, of which it is asked about what training takes."""

    recipe: RecipeText = Field(description="An object, or its text in YAML.")
    target: TargetName = "host"
    threads: Threads = None


class EstimateIn(ApproximationIn):
    """A recipe and a device, of which it is asked what training takes."""

    memory_bytes: int | None = Field(
        default=None, ge=1, le=2**50, description="What the process may take: forward nodes run twice where that helps."
    )


class GraphIn(BaseModel):
    """Whose graph is wanted: the model's, or with a recipe that of its training step."""

    recipe: RecipeText | None = Field(default=None, description="An object, or its text in YAML.")
    target: TargetName = "host"
    batch: int | None = Field(default=None, ge=1, le=1 << 20, description="Without a recipe; None: the model's own.")


class OperatorUseOut(_Told):
    """An operator of the model's file."""

    operator: _Name
    count: _Count
    status: _Name = Field(description="`supported`, `folded`, `forward only` or `unsupported`.")


class UnsupportedOut(_Told):
    """A node that is in the way."""

    operator: _Name
    node: _Name
    shapes: _Text
    needed_for: _Text
    position: _Text
    advice: _Text


class LayerParameterOut(_Told):
    """A parameter of a layer."""

    name: _Name
    shape: _Shape
    trained: Literal["all", "channels", "frozen"]
    channels: _Count | None = Field(default=None, description="Input channels that are trained, where not all are.")
    input_channels: _Count | None = Field(default=None, description="How many there are; None: it has none.")


class LayerOut(_Told):
    """The nodes from one module's parameters to the next module's."""

    name: _Name
    operators: list[_Name] = Field(max_length=1000)
    shape: _Shape = Field(description="Of the layer's result.")
    param_count: _Count
    parameters: list[LayerParameterOut] = Field(max_length=10_000)
    flops: _Count = Field(description="Of the forward pass.")
    share: float = Field(description="Of the model's forward operations, from 0 to 1.")
    saved_bytes: _Count = Field(description="What of its results the backward pass needs.")
    saved_share: float


class TargetFitOut(_Told):
    """Whether a step fits a device."""

    predicted_peak_bytes: _Count
    memory: _Name
    memory_bytes: _Count
    ram_bytes: _Count
    fits: bool = Field(description="Whether a quarter of the memory is left to the system.")


class TakesOut(TargetFitOut):
    """What a recipe takes on a target. The parts in bytes sum to `predicted_peak_bytes`."""

    target: _Name
    threads: _Count
    batch: _Count
    step_ms: float = Field(description="What the compiler's model expects of a step; nothing was measured.")
    runtime_bytes: _Count | None = Field(default=None, description="Code, tables, stacks, buffers: an estimate.")
    param_bytes: _Count
    state_bytes: _Count
    const_bytes: _Count
    input_bytes: _Count
    arena_bytes: _Count
    lower_bound_bytes: _Count
    saved_bytes: _Count
    nodes_forward: _Count
    nodes_backward: _Count
    nodes_backward_dense: _Count
    kernels: _Count
    flops: dict[Phase, _Count]
    parameters: _Count
    trained_parameters: _Count
    recomputed_nodes: _Count = 0
    recomputed_share: float = 0.0
    left_out: dict[_Name, _Text] = Field(default_factory=dict, max_length=100_000)
    targets: dict[_Name, TargetFitOut] = Field(default_factory=dict, max_length=1000)


class EstimateOut(TakesOut):
    """The same, with what the recipe trains of each layer."""

    layers: list[LayerOut] = Field(max_length=20_000)
    recipe: dict[str, Any] = Field(description="In its canonical form: defaults filled in.")


class AboutOut(_Told):
    """About what a recipe takes. The parts in bytes sum to `predicted_peak_bytes`."""

    predicted_peak_bytes: _Count
    step_ms: float
    runtime_bytes: _Count
    param_bytes: _Count
    state_bytes: _Count
    const_bytes: _Count
    input_bytes: _Count
    arena_bytes: _Count
    trained_parameters: _Count


class ApproximationOut(_Told):
    """About what a recipe takes, once that can be told."""

    learned: float = Field(ge=0, le=1, description="The share of the schemes to learn from that is known.")
    takes: AboutOut | None = Field(description="None before all is learned, and of recipes it tells nothing about.")


class UsualOut(_Told):
    """What a usual recipe takes, or why it cannot be used on this model."""

    takes: TakesOut | None = None
    error: _Text | None = None


class CheckOut(_Told):
    """What is in a model, whether it can be trained, and what that takes."""

    supported: bool
    missing_weights: bool = Field(description="Whether files of weights were not looked at; nothing here needs them.")
    operators: list[OperatorUseOut] = Field(max_length=1000)
    unsupported: list[UnsupportedOut] = Field(max_length=1000)
    inputs: dict[_Name, _Text] = Field(max_length=1000, description="Name to type, such as `f32[8, 3, 32, 32]`.")
    outputs: dict[_Name, _Text] = Field(max_length=1000)
    param_count: _Count
    flops_forward: _Count
    layers: list[LayerOut] = Field(max_length=20_000)
    recipes: dict[_Name, UsualOut] = Field(
        max_length=10, description="Training all of it, its head, its biases, with the usual loss and AdamW."
    )


class GraphNodeOut(_Told):
    """A node of a graph; edges name it by its place in the list."""

    name: _Name
    op: _Name
    module: _Name = Field(description="Its layer; empty for what comes from none, such as the loss.")
    phase: Phase
    flops: _Count
    bytes: _Count = Field(description="Of its results.")
    shape: _Shape
    trained: Literal["all", "channels", "frozen"] | None = Field(
        description="What is trained of the parameters that it reads; None where it reads none."
    )
    expected_us: float | None = Field(
        default=None,
        ge=0,
        description="Microseconds that the compiler's model expects of it alone on one core; None for a view.",
    )


class GraphOut(_Told):
    """A graph: nodes in the order in which they run, and edges from maker to reader."""

    nodes: list[GraphNodeOut] = Field(max_length=100_000)
    edges: list[tuple[_Count, _Count]] = Field(max_length=500_000)
