/** What boxes of a graph are coloured by, and what stands in the legend. Knows nothing of the page. */

import type { GraphNode } from "../api/types";
import * as format from "../format";
import type { Box } from "./tree";

export type Measure = "time" | "operations" | "bytes";
export type ColourBy = Measure | "trained";

export const COLOURS: Readonly<Record<ColourBy, string>> = {
  time: "expected time",
  operations: "operations",
  bytes: "bytes of results",
  trained: "trained or frozen",
};

const OF: Readonly<Record<Measure, (node: GraphNode) => number>> = {
  time: (node) => (node.expected_us ?? 0) / 1000,
  operations: (node) => node.flops,
  bytes: (node) => node.bytes,
};

const TEXT: Readonly<Record<Measure, (value: number) => string>> = {
  time: format.milliseconds,
  operations: format.count,
  bytes: format.bytes,
};

/** Sum of the nodes in a box. */
export function measured(box: Box, nodes: readonly GraphNode[], by: Measure): number {
  return box.nodes.reduce((sum, index) => sum + (nodes[index] ? OF[by](nodes[index]) : 0), 0);
}

export function measureText(value: number, by: Measure): string {
  return TEXT[by](value);
}

export type Trained = "all" | "part" | "frozen" | "none";

export const TRAINED: Readonly<Record<Trained, string>> = {
  all: "reads what is trained",
  part: "in part",
  frozen: "reads what is frozen",
  none: "reads no parameters",
};

/** What is trained of the parameters that a box's nodes read. */
export function trainedOf(box: Box, nodes: readonly GraphNode[]): Trained {
  const kinds = new Set(box.nodes.map((index) => nodes[index]?.trained).filter(Boolean));
  if (kinds.size === 0) return "none";
  return kinds.size > 1 || kinds.has("channels") ? "part" : kinds.has("all") ? "all" : "frozen";
}

export interface Palette {
  readonly card: string;
  readonly heat: string;
  readonly trained: Readonly<Record<Trained, string>>;
}

/** Red, green and blue of `#rrggbb` or `#rgb`, from 0 to 255. */
function parts(colour: string): number[] {
  const digits = colour.length < 7 ? [1, 2, 3].map((at) => (colour[at] ?? "0").repeat(2)) : null;
  return (digits ?? [1, 3, 5].map((at) => colour.slice(at, at + 2))).map((pair) => parseInt(pair, 16));
}

/** Between two colours such as `#rrggbb`: `share` 0 is the first, 1 the second. */
export function mixed(from: string, to: string, share: number): string {
  const [a, b] = [parts(from), parts(to)];
  const mix = a.map((value, at) => Math.round(value + ((b[at] ?? value) - value) * share));
  return `#${mix.map((value) => value.toString(16).padStart(2, "0")).join("")}`;
}

/** How light a colour is, from 0 to 1: letters on it are dark above the middle. */
export function lightness(colour: string): number {
  const [red = 0, green = 0, blue = 0] = parts(colour);
  return (0.299 * red + 0.587 * green + 0.114 * blue) / 255;
}

/** Small shares stay apart: of a hundred boxes most have less than a hundredth of the largest. */
export const heat = (value: number, most: number) => (most > 0 ? Math.sqrt(value / most) : 0);

/** The colour of each box. */
export function fills(
  boxes: readonly Box[],
  nodes: readonly GraphNode[],
  by: ColourBy,
  palette: Palette,
): { readonly of: ReadonlyMap<string, string>; readonly most: number } {
  if (by === "trained")
    return { of: new Map(boxes.map((box) => [box.id, palette.trained[trainedOf(box, nodes)]])), most: 0 };
  const values = boxes.map((box) => measured(box, nodes, by));
  const most = values.reduce((one, other) => Math.max(one, other), 0);
  const of = boxes.map((box, at) => [box.id, mixed(palette.card, palette.heat, heat(values[at] ?? 0, most))] as const);
  return { of: new Map(of), most };
}
