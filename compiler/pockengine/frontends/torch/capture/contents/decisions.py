"""What a module's Python decides by the contents of tensors: `if mask.any()`, `lengths.tolist()`. A program of static
shapes takes the way that the example inputs took; where the data would decide otherwise, the module's outputs are NaN:
nothing is wrong in silence. What depends on parameters, which training changes, is not decided but refused."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils.weak import WeakIdKeyDictionary

from .....errors import ModelError
from ..gradients import in_place
from .conditions import Conditions, Place, quoted
from .selections import place_of_call

Question = tuple[Place, str]
"""Where something is asked of a tensor, and by which function."""


def _itself(x: Tensor) -> Tensor:
    return x


def _nonzero(x: Tensor) -> Tensor:
    return x != 0


def _equal(a: Tensor, b: Tensor) -> Tensor:
    return (a == b).all() if a.shape == b.shape else torch.tensor(False)


_ASKED: dict[Callable[..., Any], Callable[..., Tensor]] = {
    Tensor.__bool__: _nonzero,
    Tensor.is_nonzero: _nonzero,
    torch.is_nonzero: _nonzero,
    Tensor.__int__: torch.trunc,
    Tensor.__index__: _itself,
    Tensor.item: _itself,
    Tensor.__contains__: lambda x, element: (x == element).any(),
    torch.equal: _equal,
    Tensor.equal: _equal,
}
"""Functions whose result is no tensor -> the tensor whose contents it is, of the same arguments. `tolist` is traced as
an `item` of each element."""

_CHOOSING = (Tensor.__bool__, Tensor.is_nonzero, torch.is_nonzero, Tensor.__contains__, torch.equal, Tensor.equal)
"""Those whose answer no trace can leave open."""


class Decisions:
    """What was asked of tensors where a module ran, and the answers, in order.

    wanted   otherwise nothing is written down, and nothing is decided where the module is traced
    settled  where a trace decided as the run did, in order"""

    def __init__(self, wanted: bool) -> None:
        self.answers: dict[Question, list[Any]] = {}
        self.settled: dict[Place, None] = {}
        self._wanted = wanted

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """While the block runs the module for real, its questions are written down."""
        with _Observing(self.answers) if self._wanted else contextlib.nullcontext():
            yield


class _Observing(TorchFunctionMode):
    """Answers of which parameters are a part are None."""

    def __init__(self, answers: dict[Question, list[Any]]) -> None:
        super().__init__()
        self._answers = answers
        self._learned = WeakIdKeyDictionary()

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = function(*args, **kwargs)
        learned = any(self._is_learned(x) for x in pytree.tree_leaves((args, kwargs)))
        if learned and not _of_a_shape(function):
            changed = [args[0], args[0]._base] if in_place(function) else []
            for x in (*pytree.tree_leaves(result), *changed):
                if isinstance(x, Tensor):
                    self._learned[x] = True
        if function is Tensor.tolist:
            for element in pytree.tree_leaves(result):
                self._note(Tensor.item, None if learned else _whole(element))
        elif function in _ASKED:
            self._note(function, None if learned else _whole(result))
        elif function in (Tensor.__getitem__, Tensor.__setitem__):
            with_bounds(args[1], self._note_bound)
        return result

    def _is_learned(self, x: Any) -> bool:
        return isinstance(x, Tensor) and (isinstance(x, nn.Parameter) or x in self._learned)

    def _note_bound(self, bound: Tensor) -> None:
        self._note(Tensor.__int__, None if self._is_learned(bound) else int(bound))

    def _note(self, function: Callable[..., Any], answer: Any) -> None:
        self._answers.setdefault((place_of_call(), function.__name__), []).append(answer)


class Decided:
    """The decisions of one trace.

    conditions  to be filled: what holds of the data where everything is decided as it was"""

    def __init__(self, answers: Mapping[Question, list[Any]], conditions: Conditions) -> None:
        self._answers, self._conditions = answers, conditions
        self._seen: Counter[Question] = Counter()

    def answer(self, function: Callable[..., Any], args: tuple[Any, ...], is_known: bool) -> Any:
        """The answer that the same question had in the run; None for any other call, and where it is not decided here.

        is_known  the contents are the same in every run"""
        if not self._answers:
            return None
        if function is Tensor.tolist:  # of a tensor whose contents are known
            self._seen[(place_of_call(), Tensor.item.__name__)] += args[0].numel()
        if function not in _ASKED:
            return None
        question = (place_of_call(), function.__name__)
        index, found = self._seen[question], self._answers.get(question, [])
        self._seen[question] += 1
        if is_known or index >= len(found):
            return None
        if found[index] is None:
            if function in _CHOOSING:
                raise _refusal(question[0])
            return None
        contents = _ASKED[function](*args)
        expected = torch.tensor(found[index], dtype=contents.dtype)
        if contents.shape != expected.shape:
            contents = contents.reshape(expected.shape)
        self._conditions.add(question[0], (contents == expected).all())
        return found[index]


def _refusal(place: Place) -> ModelError:
    return ModelError(
        f"{quoted(place)} decides by what the module's parameters compute, which training changes: let torch.where "
        "choose, or leave this part out"
    )


def with_bounds(index: Any, replace: Callable[[Tensor], Any]) -> Any:
    """An index, the tensors that say where its slices begin and end replaced, in order."""

    def replaced(part: Any) -> Any:
        if not isinstance(part, slice):
            return part
        given = (part.start, part.stop, part.step)
        return slice(*(replace(x) if isinstance(x, Tensor) else x for x in given))

    return tuple(map(replaced, index)) if isinstance(index, tuple) else replaced(index)


def _of_a_shape(function: Callable[..., Any]) -> bool:
    """Whether a function reads nothing of a tensor but what kind of tensor it is."""
    name = getattr(function, "__name__", "")
    return name.startswith("new_") or name.endswith("_like")


def _whole(answer: Any) -> Any:
    """An answer that is a whole number or a truth value; None for any other."""
    return answer if isinstance(answer, bool | int) else None
