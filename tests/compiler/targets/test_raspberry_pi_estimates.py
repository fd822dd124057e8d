"""What benchmarks/raspberry_pi reads of other people's tools: disassembly, counts of the emulator, cycles of llvm-mca.
The samples are their real output, so that none of them is needed."""

from __future__ import annotations

import shutil

import pytest

from benchmarks.raspberry_pi import pipeline, tools
from benchmarks.raspberry_pi.emulator import instructions, parse_counts
from benchmarks.raspberry_pi.machine_code import assembly, parse_disassembly, vector_arithmetic, vector_products

DISASSEMBLY = """
model:	file format elf64-littleaarch64

Disassembly of section .text:

000000000102f520 <k_conv2d_0161782b74ad588c>:
 102f520:      	stp	d9, d8, [sp, #-0x10]!
 102f524:      	bl	0x102f530 <tile_1x2>
 102f528:      	ret

000000000102f530 <tile_1x2>:
 102f530:      	ldp	q8, q9, [x1], #0x20
 102f534:      	fmla	v0.4s, v8.4s, v9.s[0]
 102f538:      	fmla	v1.4s, v9.4s, v9.s[0]
 102f53c:      	fmadd	s0, s2, s0, s1
 102f540:      	b.ne	0x102f530 <tile_1x2>  // the loop
"""


def test_disassembly_gives_functions_and_blocks() -> None:
    code = parse_disassembly(DISASSEMBLY)
    assert [code.function_index(address) for address in (0x102F51C, 0x102F520, 0x102F528, 0x102F540)] == [-1, 0, 0, 1]
    loop = code.block(0x102F530, 5)
    assert loop[0] == "ldp q8, q9, [x1], #0x20"
    assert (vector_products(loop), vector_arithmetic(loop)) == (2, 2)
    assert assembly(loop).splitlines()[-1] == "b.ne place"
    assert assembly(code.block(0x102F520, 3)).splitlines() == ["stp d9, d8, [sp, #-0x10]!", "ret"]


def test_counts_of_one_block_translated_twice_are_one() -> None:
    once, twice = parse_counts("102f530 5 10\n102f520 3 2\n"), parse_counts("102f530 5 30\n102f530 5 4\n102f520 3 2\n")
    assert instructions(once) == 56
    assert twice - once == {(0x102F530, 5): 24}


def test_cycles_are_those_of_one_iteration() -> None:
    summary = '{"BlockRThroughput": 3, "IPC": 0.9, "Instructions": 500, "Iterations": 100, "TotalCycles": 553}'
    text = f'{{"CodeRegions": [{{"Name": "7", "SummaryView": {summary}}}]}}'
    assert pipeline.parse_cycles(text) == {"7": 5.53}


def test_a_missing_tool_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    tools.tool.cache_clear()
    with pytest.raises(tools.MissingTool, match="llvm-19"):
        tools.tool("llvm-mca")
    with pytest.raises(tools.MissingTool, match="qemu-user"):
        tools.tool("qemu-aarch64")
