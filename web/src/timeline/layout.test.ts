import { describe, expect, it } from "vitest";
import {
  aliveAt,
  boxes,
  heaviest,
  liveBytes,
  livePath,
  nameOf,
  peakNode,
  phaseBands,
  type Plan,
  planOf,
  spanOf,
  ticks,
} from "./layout";
import { partsOf } from "./parts";

const node = (index: number, phase: string, flops: number) => ({
  index,
  name: `n${index}`,
  op: "matmul",
  kernel: "k",
  flops,
  bytes: 10 * flops,
  phase,
});

const program: Plan = {
  arenaBytes: 300,
  lowerBoundBytes: 300,
  nodes: [node(0, "forward", 5), node(1, "forward", 20), node(2, "backward", 75), node(3, "update", 0)],
  slots: [
    { value: "a", offset: 0, nbytes: 100, first: 0, last: 2, kind: "activation" },
    { value: "b", offset: 100, nbytes: 200, first: 1, last: 2, kind: "gradient" },
    { value: "c", offset: 0, nbytes: 50, first: 3, last: 3, kind: "workspace" },
  ],
};

describe("memory timeline", () => {
  it("sums live bytes per node and finds the peak", () => {
    const live = liveBytes(program);
    expect(live).toEqual([100, 300, 300, 50]);
    expect(peakNode(live)).toBe(1);
  });

  it("agrees with counting each node on its own, for random plans", () => {
    let seed = 7;
    const random = (below: number) => (seed = (seed * 48271) % 2147483647) % below;
    const slots = Array.from({ length: 60 }, (_, index) => {
      const first = random(20);
      return {
        value: `v${index}`,
        offset: 0,
        nbytes: random(1000),
        first,
        last: first + random(20 - first),
        kind: "x",
      };
    });
    const nodes = Array.from({ length: 20 }, (_, index) => node(index, "forward", 1));
    const plan: Plan = { arenaBytes: 1, lowerBoundBytes: 1, nodes, slots };
    const counted = nodes.map((_, index) => aliveAt(plan, index).reduce((sum, slot) => sum + slot.nbytes, 0));
    expect(liveBytes(plan)).toEqual(counted);
  });

  it("lists what is alive at a node, largest first", () => {
    expect(aliveAt(program, 2).map((slot) => slot.value)).toEqual(["b", "a"]);
    expect(aliveAt(program, 3).map((slot) => slot.value)).toEqual(["c"]);
  });

  it("draws offsets upward and lifetimes as whole columns", () => {
    const [a, b, c] = boxes(program, 400, 300, 300);
    expect(a).toMatchObject({ x: 0, y: 200, width: 300, height: 100 });
    expect(b).toMatchObject({ x: 100, y: 0, width: 200, height: 200 });
    expect(c).toMatchObject({ x: 300, y: 250, width: 100, height: 50 });
  });

  it("keeps overlapping lifetimes apart in y whenever their offsets are apart", () => {
    const [a, b] = boxes(program, 400, 300, 300);
    expect((b?.y ?? 0) + (b?.height ?? 0)).toBeLessThanOrEqual(a?.y ?? 0);
  });

  it("draws the live line as steps", () => {
    expect(livePath([100, 300], 200, 300, 300)).toBe("M0.0,200.0L100.0,200.0L100.0,0.0L200.0,0.0");
  });

  it("groups phases", () => {
    expect(phaseBands(program.nodes)).toEqual([
      { phase: "forward", first: 0, last: 1 },
      { phase: "backward", first: 2, last: 2 },
      { phase: "update", first: 3, last: 3 },
    ]);
  });

  it("reads a manifest's program, and works out sizes that it does not state", () => {
    const { nodes, slots } = { nodes: [...program.nodes], slots: [...program.slots] };
    expect(planOf({ arena_bytes: 320, lower_bound_bytes: 310, nodes, slots })).toMatchObject({
      arenaBytes: 320,
      lowerBoundBytes: 310,
    });
    expect(planOf({ nodes, slots })).toMatchObject({ arenaBytes: 300, lowerBoundBytes: 300 });
    expect(planOf({})).toBeNull();
    expect(planOf(undefined)).toBeNull();
  });

  it("survives a program without nodes", () => {
    const empty: Plan = { arenaBytes: 0, lowerBoundBytes: 0, nodes: [], slots: [] };
    expect(liveBytes(empty)).toEqual([]);
    expect(peakNode([])).toBe(0);
    expect(livePath([], 10, 10, 1)).toBe("");
  });

  it("chooses round ticks", () => {
    expect(ticks(10 * 1024, 5, 2)).toEqual([0, 2048, 4096, 6144, 8192, 10240]);
    expect(ticks(97, 5, 10)).toEqual([0, 20, 40, 60, 80]);
    expect(ticks(3, 5, 10)).toEqual([0, 1, 2, 3]);
    expect(ticks(0, 5, 10)).toEqual([0]);
  });

  it("ranks nodes by cost with their share", () => {
    expect(heaviest(program.nodes, "flops", 2).map(({ node: n, share }) => [n.name, share])).toEqual([
      ["n2", 0.75],
      ["n1", 0.2],
    ]);
    expect(heaviest(program.nodes, "bytes", 9)).toHaveLength(3);
  });

  it("names a counted value by the node that makes it", () => {
    const slot = { value: "v635", offset: 0, nbytes: 1, first: 1, last: 1, kind: "activation" };
    expect(nameOf(slot, program)).toBe("n1 (v635)");
    expect(nameOf({ ...slot, value: "vector" }, program)).toBe("vector");
    expect(nameOf({ ...slot, first: 9 }, program)).toBe("v635");
  });

  it("reads the shown part of the nodes, and shows all for what is no part", () => {
    const whole = { from: 0, to: 40 };
    expect(spanOf("3-9", whole)).toEqual({ from: 3, to: 9 });
    for (const said of [null, "", "9-3", "3-41", "3-3", "a-b"]) expect(spanOf(said, whole)).toEqual(whole);
  });

  it("parts the peak so that the parts sum to it", () => {
    const parts = partsOf({ param_bytes: 5, state_bytes: 1, arena_bytes: 7, input_bytes: 2 } as never, 100);
    expect(parts.map(({ bytes }) => bytes)).toEqual([5, 1, 0, 2, 7, 85]);
    expect(parts.reduce((sum, { bytes }) => sum + bytes, 0)).toBe(100);
  });
});
