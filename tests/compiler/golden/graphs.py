"""The training graph of two small networks after each pass, as what each pass changes: to review what a change does to
the compiler's graphs.

python -m tests.compiler.golden.graphs          writes the files in golden/graphs anew
"""

from __future__ import annotations

import difflib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pockengine import Recipe
from pockengine.compile import plan_programs
from pockengine.compile.request import Request, Scope
from pockengine.ir import Graph
from pockengine.targets import get
from tests.compiler.passes.networks import cnn, transformer

FOLDER = Path(__file__).with_name("graphs")
CHANNELS = [{"params": "c1.weight", "channels": 0.5}, {"params": "c[34].*"}]
LISTS = ("preparing", "train/algebra", "train/shaping", "train/ordering", "train/packing")


@dataclass(frozen=True)
class Golden:
    """A network and how it is trained."""

    name: str
    network: Graph
    recipe: Recipe

    @property
    def file(self) -> Path:
        return FOLDER / f"{self.name}.diff"

    def text(self) -> str:
        """For each pass, the lines of the graph that it takes out and puts in; of the first, all lines."""
        with tempfile.TemporaryDirectory(prefix="pock-golden-") as folder:
            request = Request(
                self.network, self.recipe, get("raspberry-pi-4"), 2, dump=Path(folder), scope=Scope.TRAINING
            )
            plan_programs(request)
            steps = [file for each in LISTS for file in sorted((Path(folder) / each).iterdir())]
            texts = {str(file.relative_to(folder).with_suffix("")): file.read_text("utf-8") for file in steps}
        parts, before = [], ""
        for name, text in texts.items():
            changes = difflib.unified_diff(before.splitlines(), text.splitlines(), n=0, lineterm="")
            lines = [line for line in changes if not line.startswith(("---", "+++", "@@"))]
            parts.append("\n".join([f"# {name}" + ("" if lines else ": no change"), *lines]))
            before = text
        return "\n\n".join(parts) + "\n"


def goldens() -> list[Golden]:
    """A network of convolutions of which channels are trained, and an encoder that is trained whole."""
    sgd = {"name": "sgd", "lr": 0.1, "momentum": 0.9}
    return [
        Golden("cnn", cnn(), Recipe(loss="cross_entropy", optimizer=sgd, update=CHANNELS, batch=2)),
        Golden(
            "transformer",
            transformer(),
            Recipe(loss="cross_entropy", optimizer="sgd", update=["head", {"params": "*.bias"}], batch=2),
        ),
    ]


def write() -> None:
    """Write all files anew."""
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*"):
        old.unlink()
    for golden in goldens():
        golden.file.write_text(golden.text(), "utf-8")


if __name__ == "__main__":
    write()
