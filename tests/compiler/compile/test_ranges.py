"""What the integers of inputs may be follows from the records of the operators that index with them."""

from __future__ import annotations

from pockengine.compile.ranges import IntegerRange, integer_ranges
from pockengine.ir import Builder, parse_type
from pockengine.ops import Emitter


def test_each_index_is_bounded_by_all_that_it_chooses_from() -> None:
    builder = Builder("ranges")
    e = Emitter(builder)
    types = {"ids": "i64[6]", "places": "i64[6]", "labels": "i64[6]", "table": "f32[9,4]", "short": "f32[5,4]"}
    values = {name: builder.input(name, parse_type(text)) for name, text in types.items()}
    seen = e.op("gather", values["table"], e.reshape(values["ids"], (2, 3)), axis=0)
    again = e.op("gather", values["short"], values["ids"], axis=0)
    added = e.op("scatter_add", again, values["places"], axis=0, size=7)
    loss = e.op("cross_entropy", again, values["labels"], label_smoothing=0.0, ignore_index=-100)
    builder.outputs = {"seen": seen, "added": added, "loss": loss}
    assert integer_ranges(builder.finish()) == {
        "ids": IntegerRange(5),
        "places": IntegerRange(7),
        "labels": IntegerRange(4, -100),
    }


def test_a_bound_is_that_of_the_input_whatever_order_and_shape_its_integers_are_read_in() -> None:
    builder = Builder("turned")
    e = Emitter(builder)
    table, ids = (builder.input(name, parse_type(text)) for name, text in (("table", "f32[9,4]"), ("ids", "i32[2,3]")))
    wide = e.broadcast_to(e.op("cast", e.transpose(ids, (1, 0)), to="i64"), (5, 3, 2))
    builder.outputs = {"rows": e.op("gather", table, wide, axis=0)}
    assert integer_ranges(builder.finish()) == {"ids": IntegerRange(9)}
