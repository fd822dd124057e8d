import { expect, test } from "vitest";
import type { KernelTime } from "../../api/types";
import { ordered, partsOf, rooflineOf } from "./roofline";

const kernel = (name: string, ms: number | null, flops: number, bytes: number): KernelTime => ({
  name,
  kernel: `k_${name}`,
  node: 0,
  ms,
  flops,
  bytes,
});

const KERNELS = [
  kernel("product", 10, 1e9, 1e6), // the highest rate of operations: 1e8 a ms
  kernel("copy", 5, 0, 5e8), // the highest rate of bytes: 1e8 a ms
  kernel("slow", 8, 2e8, 1e6),
  kernel("thin", 4, 1e6, 1e8),
];

test("a kernel could take what its operations or its bytes take at the highest rates of the run", () => {
  const { kernels, flops, bytes, totalMs, lostMs } = rooflineOf(KERNELS);
  expect([flops, bytes, totalMs]).toEqual([1e8, 1e8, 27]);
  expect(kernels.map(({ leastMs, bound }) => [leastMs, bound])).toEqual([
    [10, "arithmetic"],
    [5, "memory"],
    [2, "arithmetic"],
    [1, "memory"],
  ]);
  expect(lostMs).toBe(9);
  expect(ordered(kernels, "lost").map(({ kernel: { name } }) => name)).toEqual(["slow", "thin", "product", "copy"]);
  expect(ordered(kernels, "time").map(({ kernel: { name } }) => name)).toEqual(["product", "slow", "copy", "thin"]);
});

test("what is too short to tell a rate sets no ceiling, and nothing is guessed", () => {
  const short = kernel("short", 0.001, 1e9, 1e9);
  expect(rooflineOf([...KERNELS, short]).flops).toBe(1e8);
  expect(rooflineOf([...KERNELS, short]).kernels.at(-1)).toMatchObject({ leastMs: 0.001 });
  const bare = rooflineOf([kernel("bare", 3, 0, 0), kernel("lost", null, 0, 0)]);
  expect([bare.flops, bare.bytes, bare.lostMs]).toEqual([null, null, 0]);
  expect(bare.kernels.every(({ leastMs, bound }) => leastMs === null && bound === null)).toBe(true);
  expect(rooflineOf([])).toMatchObject({ totalMs: 0, lostMs: 0 });
});

test("numbers that are none, as a device may send them, count as nothing", () => {
  const strange = { ...kernel("x", -5, Number.NaN, Number.POSITIVE_INFINITY) };
  expect(rooflineOf([strange, ...KERNELS])).toMatchObject({ totalMs: 27, flops: 1e8 });
});

test("kernels are parted by the phase of their nodes, each part in order and with its sum", () => {
  const phases = ["update", "forward", undefined, "forward"] as const;
  const kernels = KERNELS.map((one, index) => (phases[index] ? { ...one, phase: phases[index] } : one));
  const told = (by: "time" | "lost") =>
    partsOf(rooflineOf(kernels), by).map(({ phase, ms, kernels }) => [phase, ms, kernels.map((k) => k.kernel.name)]);
  expect(told("time")).toEqual([
    ["forward", 9, ["copy", "thin"]],
    ["update", 10, ["product"]],
    [null, 8, ["slow"]],
  ]);
  expect(told("lost")[0]).toEqual(["forward", 9, ["thin", "copy"]]);
  expect(partsOf(rooflineOf([]), "time")).toEqual([]);
});
