"""The folder of a job: what lies in it, and the command line of each phase.

`docs/reference/binary.md` is the contract with the executable. Paths in commands are relative to the job's folder: the
unprivileged child may be unable to reach that folder by its absolute path.
"""

from __future__ import annotations

import math
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pock_agent.disk.blobs import Blob
from pock_agent.job.states import State
from pock_agent.place.place import Place, Room
from pock_agent.settings import MIB
from pock_agent.trust.manifest import Entry, HeldOut, Manifest, WeightsForm

WEIGHTS = "out/weights.safetensors"
GIVEN = "data/given-weights"
INITIAL = "data/weights.safetensors"
CHECKPOINT = "out/checkpoint.safetensors"
PARAMETERS = {"params.safetensors": "--params", "consts.safetensors": "--consts"}
_CHECKPOINT_STEPS = 50  # a shorter training is repeated rather than written down on the way
_CHECKPOINTS = 20  # at most about this many are written in a longer one


@dataclass(frozen=True)
class Workplace:
    """The job's folder, laid out: the artifact and the data read-only, `out/` writable for the child.

    The job runs in `room`, which `place` has. With `may_pause` even a short training can be continued.
    """

    folder: Path
    manifest: Manifest
    place: Place
    room: Room
    may_pause: bool = False

    def command(self, phase: State, entry: Entry, resume: bool) -> list[str]:
        """The command line of one phase; `resume` a training if it can be."""
        run, members = self.manifest.run, self.manifest.artifact.members
        command = [*self.room.emulation.prefix, f"./artifact/{self.manifest.artifact.executable}", entry.value]
        data = self._data(phase)
        if data is not None:
            command += ["--data", data]
        for member, option in PARAMETERS.items():
            if member in members:
                command += [option, f"artifact/{member}"]
        command += ["--report", f"out/{phase.value}.json"]
        if run.threads:
            command += ["--threads", str(run.threads)]
        if entry is not Entry.EVAL:
            command += ["--steps", str(self.manifest.steps_of_process), *(["--profile"] if run.profile else [])]
        if entry is Entry.TRAIN:
            command += ["--seed", str(run.seed), *self._checkpoint(resume), *_watching(run.held_out)]
            if run.save_weights or self.manifest.eval_data is not None:
                command += [self._saving(), WEIGHTS]
        if phase is State.EVAL_AFTER:
            command += ["--load", WEIGHTS]
        elif self.manifest.initial_weights is not None:
            command += ["--load", INITIAL]
        return command

    def _saving(self) -> str:
        """A delta needs only what was trained, unless other weights were loaded first: all may differ then."""
        all_may_differ = self.manifest.initial_weights is not None
        return "--save" if all_may_differ or self.manifest.run.weights_form is WeightsForm.FULL else "--save-trained"

    def _checkpoint(self, resume: bool) -> list[str]:
        """Options that let a long training go on after a restart or a pause."""
        steps = self.manifest.run.steps
        present = resume and (self.folder / CHECKPOINT).exists()
        if steps <= _CHECKPOINT_STEPS and not self.may_pause and not present:
            return []
        every = max(_CHECKPOINT_STEPS, math.ceil(steps / _CHECKPOINTS))
        options = ["--checkpoint", CHECKPOINT, "--checkpoint-every", str(every)]
        return [*options, "--resume", CHECKPOINT] if present else options

    def _data(self, phase: State) -> str | None:
        evaluates = phase is not State.TRAIN
        if evaluates and self.manifest.eval_data is not None:
            return "data/eval.safetensors"
        return None if self.manifest.train_data is None else "data/train.safetensors"


def _watching(held_out: HeldOut | None) -> list[str]:
    """Options of a training that evaluates a share of its own data."""
    if held_out is None:
        return []
    options = ["--eval-share", repr(held_out.share), "--eval-seed", str(held_out.seed)]
    numbers = (("--eval-every", held_out.every), ("--patience", held_out.patience))
    return [*options, *(word for option, number in numbers if number for word in (option, str(number)))]


def file_bytes(manifest: Manifest) -> int:
    """What a file of the job may grow to: weights, optimizer state and a checkpoint of both, and then some."""
    members = manifest.artifact.members
    return 8 * sum(members[name].size for name in PARAMETERS if name in members) + 64 * MIB


def entry_of(phase: State, manifest: Manifest) -> Entry | None:
    """What the executable does in a phase of this job; None when the job has no such phase."""
    ordered = manifest.run.entry
    if phase is State.TRAIN:
        return None if ordered is Entry.EVAL else ordered
    if ordered is Entry.TRAIN:
        return Entry.EVAL if manifest.eval_data is not None else None
    return Entry.EVAL if ordered is Entry.EVAL and phase is State.EVAL_BEFORE else None


def needed_blobs(manifest: Manifest) -> dict[str, Blob]:
    """What has to be on the device, by its place in the job's folder."""
    members = manifest.artifact.members
    wanted = [manifest.artifact.executable, *(name for name in PARAMETERS if name in members)]
    placed = {f"artifact/{name}": members[name] for name in wanted}
    for name, blob in (("train", manifest.train_data), ("eval", manifest.eval_data)):
        if isinstance(blob, Blob):
            placed[f"data/{name}.safetensors"] = blob
    if manifest.initial_weights is not None:
        placed[GIVEN] = manifest.initial_weights
    return placed


def lay_out(folder: Path, manifest: Manifest, files: Mapping[Blob, Path], place: Place) -> Workplace:
    """Place verified blobs in the job's folder. The executable is copied, large files are linked where possible."""
    for name in ("artifact", "data"):
        shutil.rmtree(folder / name, ignore_errors=True)
    folder.mkdir(exist_ok=True, mode=0o755)
    os.chmod(folder, 0o755)
    executable = f"artifact/{manifest.artifact.executable}"
    for name, blob in needed_blobs(manifest).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
        if name == executable:
            shutil.copyfile(files[blob], path)
            os.chmod(path, 0o555)
        else:
            place_file(files[blob], path)
    return Workplace(folder, manifest, place, place.room(folder, executable, file_bytes(manifest)))


def place_file(source: Path, place: Path) -> None:
    """Have a file read-only in a second place, as a link where that can be."""
    try:
        os.link(source, place)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, place)
        os.chmod(place, 0o444)
