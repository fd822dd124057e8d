/** Geometry of the memory timeline: what is alive when, and where each slot is drawn. Knows nothing of the page. */

import type { PlanNode, Program, Slot } from "../api/types";
import type { Span } from "../components/pan";
import { NOTHING } from "../format";

/** A program's schedule and memory plan, complete. */
export interface Plan {
  readonly arenaBytes: number;
  readonly lowerBoundBytes: number;
  readonly nodes: readonly PlanNode[];
  readonly slots: readonly Slot[];
}

/** The plan of a program in a manifest, which the server passes on unchecked; null if it has no nodes. */
export function planOf(program: Partial<Program> | undefined): Plan | null {
  if (!program?.nodes?.length) return null;
  const plan = { nodes: program.nodes, slots: program.slots ?? [] };
  const arenaBytes = program.arena_bytes ?? Math.max(0, ...plan.slots.map((slot) => slot.offset + slot.nbytes));
  return { ...plan, arenaBytes, lowerBoundBytes: program.lower_bound_bytes ?? Math.max(0, ...liveBytes(plan)) };
}

/** "conv2d, node_Conv_7": the node that a value comes from. */
export function makerOf(slot: Slot, program: Plan): string {
  const maker = program.nodes[slot.first];
  return maker ? `${maker.op}, ${maker.name}` : NOTHING;
}

/** A value's own name; where the compiler only counted it, such as `v635`, that of the node that makes it beside it. */
export function nameOf(slot: Slot, program: Plan): string {
  const maker = program.nodes[slot.first];
  return maker && /^v\d+$/.test(slot.value) ? `${maker.name} (${slot.value})` : slot.value;
}

/** The part of the nodes that an address names, such as `20-60`; all where it names none that there is. */
export function spanOf(said: string | null, whole: Span): Span {
  const [, from, to] = /^(\d+)-(\d+)$/.exec(said ?? "") ?? [];
  const span = { from: Number(from), to: Number(to) };
  return span.from < span.to && span.to <= whole.to ? span : whole;
}

export interface Box {
  readonly slot: Slot;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Band {
  readonly phase: string;
  readonly first: number;
  readonly last: number;
}

/** Sum of live bytes at every node. Length: number of nodes. */
export function liveBytes(program: Pick<Plan, "nodes" | "slots">): number[] {
  const change = new Array<number>(program.nodes.length + 1).fill(0);
  const last = program.nodes.length - 1;
  for (const slot of program.slots) {
    const from = Math.max(0, slot.first);
    const to = Math.min(last, slot.last);
    if (to < from) continue;
    change[from] = (change[from] ?? 0) + slot.nbytes;
    change[to + 1] = (change[to + 1] ?? 0) - slot.nbytes;
  }
  let alive = 0;
  return change.slice(0, -1).map((difference) => (alive += difference));
}

/** The first node at which most bytes are alive; 0 for an empty program. */
export function peakNode(live: readonly number[]): number {
  let peak = 0;
  live.forEach((bytes, index) => {
    if (bytes > (live[peak] ?? 0)) peak = index;
  });
  return peak;
}

/** Slots alive at a node, the largest first. */
export function aliveAt(program: Plan, node: number): Slot[] {
  return program.slots
    .filter((slot) => slot.first <= node && node <= slot.last)
    .sort((a, b) => b.nbytes - a.nbytes || a.offset - b.offset);
}

/**
 * Boxes of all slots in a plot of `width` x `height` pixels: x is the node index (a slot covers whole columns), y the
 * offset, growing upward to `top` bytes. Every box stays at least `MINIMUM` pixels wide and high so that it can be seen.
 */
export function boxes(program: Plan, width: number, height: number, top: number): Box[] {
  const columns = Math.max(1, program.nodes.length);
  const MINIMUM = 0.75;
  return program.slots.map((slot) => {
    const tall = Math.max(MINIMUM, (slot.nbytes / top) * height);
    return {
      slot,
      x: (slot.first / columns) * width,
      y: Math.max(0, height - (slot.offset / top) * height - tall),
      width: Math.max(MINIMUM, ((slot.last - slot.first + 1) / columns) * width),
      height: tall,
    };
  });
}

/** Points of the live-bytes step line, in the coordinates of `boxes`. */
export function livePath(live: readonly number[], width: number, height: number, top: number): string {
  const columns = Math.max(1, live.length);
  return live
    .map((bytes, index) => {
      const y = (height - (bytes / top) * height).toFixed(1);
      const from = ((index / columns) * width).toFixed(1);
      const to = (((index + 1) / columns) * width).toFixed(1);
      return `${index === 0 ? "M" : "L"}${from},${y}L${to},${y}`;
    })
    .join("");
}

/** Runs of consecutive nodes of one phase, for the strip below the plot. */
export function phaseBands(nodes: readonly PlanNode[]): Band[] {
  const bands: Band[] = [];
  nodes.forEach((node, index) => {
    const open = bands.at(-1);
    if (open?.phase === node.phase) bands[bands.length - 1] = { ...open, last: index };
    else bands.push({ phase: node.phase, first: index, last: index });
  });
  return bands;
}

/** Round values from 0 to at most `maximum`, about `wanted` of them, in steps of 1, 2 or 5 times a power of `base`. */
export function ticks(maximum: number, wanted: number, base: 2 | 10): number[] {
  if (!(maximum > 0) || wanted < 1) return [0];
  const rough = maximum / wanted;
  const power = base ** Math.floor(Math.log(rough) / Math.log(base));
  const factors = base === 10 ? [1, 2, 5, 10] : [1, 2];
  const step = (factors.find((factor) => factor * power >= rough) ?? base) * power;
  const size = base === 10 ? Math.max(1, step) : step;
  return Array.from({ length: Math.floor(maximum / size) + 1 }, (_, index) => index * size);
}

/** Nodes by one cost, the heaviest first, with their share of the program's total. */
export function heaviest(
  nodes: readonly PlanNode[],
  cost: "flops" | "bytes",
  most: number,
): { node: PlanNode; share: number }[] {
  const total = nodes.reduce((sum, node) => sum + node[cost], 0);
  return [...nodes]
    .sort((a, b) => b[cost] - a[cost])
    .slice(0, most)
    .filter((node) => node[cost] > 0)
    .map((node) => ({ node, share: node[cost] / total }));
}
