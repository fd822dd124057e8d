"""How far a trial goes, what computes it, and what it may come to."""

from __future__ import annotations

import zlib
from enum import StrEnum

from .architectures import Architecture


class Outcome(StrEnum):
    """What became of one architecture.

    UNTRAINED  PyTorch itself does not train it here: a package is missing, it draws random numbers, has no gradient
    OPEN       other numbers, or a refusal of those, where the module sorts equal ones: PyTorch leaves their order open
    REFUSED_IMPORT  `from_torch` says why not
    REFUSED    `compile` says why not
    TRAINS     in PyTorch; nothing else was asked
    IMPORTS    nothing more was asked
    AGREES     losses, and the change of every tensor, are PyTorch's
    FAILS      an error that is not one of ours, out of memory or out of time
    WRONG      other numbers, and not a word"""

    UNTRAINED = "does not train in PyTorch"
    OPEN = "chooses among equals"
    REFUSED_IMPORT = "not exported"
    REFUSED = "refused"
    TRAINS = "trains in PyTorch"
    IMPORTS = "imports"
    AGREES = "agrees"
    FAILS = "fails"
    WRONG = "WRONG"


class Until(StrEnum):
    """The last stage of a trial.

    TORCH     training in PyTorch
    IMPORTED  `from_torch`
    TRAINED   our own three steps, compared"""

    TORCH = "torch"
    IMPORTED = "imported"
    TRAINED = "trained"


class Engine(StrEnum):
    """What computes our steps.

    MACHINE      machine code, as users have it
    INTERPRETER  numpy, of the same planned step: quicker where every kernel would first have to be compiled
    MIXED        machine code for a third of the architectures, always the same, else the interpreter"""

    MACHINE = "machine"
    INTERPRETER = "interpreter"
    MIXED = "mixed"

    def compiles(self, architecture: Architecture) -> bool:
        drawn = zlib.crc32(architecture.model_type.encode()) % 3 == 0
        return self is Engine.MACHINE or (self is Engine.MIXED and drawn)
