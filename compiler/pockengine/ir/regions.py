"""The kinds of regions: what each promises of its body to whoever computes it. `passes.verify` checks the promises."""

from __future__ import annotations

from enum import StrEnum


class RegionKind(StrEnum):
    """The template that computes a region: its attribute `kind`, in the text form the value of the member.

    Of every region: the body's inputs are the node's inputs one to one, and its outputs, in order, the node's outputs;
    what else the body reads are constants of rank 0, which become literals; nothing in it is a region, nor is there
    anything that no output needs. Only elementwise regions make masks of bits."""

    ELEMENTWISE = "elementwise"
    """Elementwise ops, and `broadcast_to` of inputs. Every result has the same shape, the loop space, and inputs
    broadcast to it."""

    CONTRACTION = "contraction"
    """One contraction, the anchor. Each of its operands is an input of the region; or, for one of them, the
    `dequantize_blocks` of two inputs; or the result of a prologue: elementwise ops of the operand's shape. What follows
    is the epilogue: elementwise ops on the anchor's shape, whose other operands are inputs that broadcast to it. All
    outputs are the anchor's result or made by the epilogue."""

    ROW = "row"
    """Elementwise ops and reductions that can be computed row by row, a row being the reduced axes flattened: all
    reductions are over the same trailing axes (axes of size 1 aside) of the same shape, the loop space. Every result
    has the loop space's shape, or that with the reduced axes of size 1."""

    COLUMN = "column"
    """An elementwise prologue on a loop space, reductions over the same axes of it, which are not trailing, and an
    elementwise epilogue on the reduced shape. Every result has one of the two shapes, and nothing on the loop space is
    made of what is reduced over it."""

    MOVED = "moved"
    """Elementwise ops and movement: `transpose`, `slice`, `concat`, `pad`, `broadcast_to` and views; and
    `dequantize_blocks` of inputs. Every result has the same shape; an element of it is made of elements of inputs that
    index arithmetic finds."""

    GRADIENTS = "gradients"
    """Both gradients of one depthwise convolution in NHWC, of the same dy; elementwise epilogues on the image and on
    the weights; sums over all pixels of dy and of one value of the image, with an elementwise epilogue on them. No part
    reads another's values, but for the sums."""
