/** Where the boxes of a graph stand. Each open module is laid out by itself, in a worker. */

import ELK, { type ElkNode } from "elkjs/lib/elk-api";
import { type Box, type Link, linksOf, type PictureOf, seenOf, standsFor } from "./tree";

export interface Placed {
  readonly box: Box;
  readonly open: boolean;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

export interface Line {
  readonly from: Box;
  readonly to: Box;
  /** x and y in turn: corners, or of a line across modules the four points of a curve. */
  readonly points: readonly number[];
  readonly across: boolean;
  /** The least rectangle around it: left, top, right, bottom. */
  readonly bounds: readonly [number, number, number, number];
}

export interface Drawing {
  readonly placed: readonly Placed[];
  readonly byId: ReadonlyMap<string, Placed>;
  readonly lines: readonly Line[];
  readonly width: number;
  readonly height: number;
}

export const HEAD = 26;
const HEIGHT = 42;
const LETTER = 7.6;
const NARROWEST = 96;
const WIDEST = 210;

/** A worker that lays out; it is started with the first graph, and stopped by the view that asked. */
export class Layouts {
  private readonly elk = new ELK({
    workerFactory: () => new Worker(new URL("./elk.worker.ts", import.meta.url), { type: "module" }),
    algorithms: ["layered"],
  });

  async of(root: Box, picture: PictureOf, open: ReadonlySet<string>): Promise<Drawing> {
    const seen = seenOf(root, open);
    const links = linksOf(picture.edges, standsFor(seen, open));
    return drawingOf(await this.elk.layout(askedOf(root, open, links)), seen, open, links);
  }

  end(): void {
    this.elk.terminateWorker();
  }
}

/** The first line of what stands in a box, and the second. */
export function textOf(box: Box): readonly [string, string] {
  if (box.node) return [box.node.op, box.node.name];
  return [box.label, `${box.nodes.length} ${box.nodes.length === 1 ? "node" : "nodes"}`];
}

/** Of a training step the phases stand side by side, and the backward part runs upward beside what it reads. */
function directionOf(box: Box): string {
  if (box.phase === "") return "RIGHT";
  return box.phase === "backward" ? "UP" : "DOWN";
}

/** The question to the library: only links between neighbours in one module, as each module is laid out by itself. */
export function askedOf(root: Box, open: ReadonlySet<string>, links: readonly Link[]): ElkNode {
  const inner = new Map<Box, Map<string, { id: string; sources: string[]; targets: string[] }>>();
  for (const { within, outer } of links) {
    const known = inner.get(within) ?? new Map();
    inner.set(within, known);
    const id = `${outer[0].id} ${outer[1].id}`;
    known.set(id, { id, sources: [outer[0].id], targets: [outer[1].id] });
  }
  const ask = (box: Box): ElkNode => {
    const large = box.children.length > 400;
    const long = box.children.length > 5;
    return {
      id: box.id || "whole",
      layoutOptions: {
        "elk.algorithm": "layered",
        "elk.direction": directionOf(box),
        "elk.padding":
          box === root ? "[top=8,left=8,bottom=8,right=8]" : `[top=${HEAD + 8},left=10,bottom=10,right=10]`,
        "elk.spacing.nodeNode": "18",
        "elk.layered.spacing.nodeNodeBetweenLayers": box.phase === "" ? "90" : "26",
        "elk.layered.thoroughness": large ? "1" : "5",
        "elk.layered.nodePlacement.strategy": large ? "SIMPLE" : "BRANDES_KOEPF",
        "elk.layered.considerModelOrder.strategy": "NODES_AND_EDGES",
        "elk.aspectRatio": box.phase === "update" ? "0.6" : "1.5",
        "elk.layered.wrapping.strategy": long ? "MULTI_EDGE" : "OFF",
      },
      children: box.children.map((child) => (open.has(child.id) ? ask(child) : sized(child))),
      edges: [...(inner.get(box)?.values() ?? [])],
    };
  };
  return ask(root);
}

function sized(box: Box): ElkNode {
  const letters = Math.max(...textOf(box).map((text) => text.length));
  return { id: box.id, width: Math.min(WIDEST, Math.max(NARROWEST, letters * LETTER + 30)), height: HEIGHT };
}

/** The library's answer, which counts from each module's corner, as places in one drawing. */
export function drawingOf(
  answer: ElkNode,
  seen: readonly Box[],
  open: ReadonlySet<string>,
  links: readonly Link[],
): Drawing {
  const byId = new Map<string, Placed>();
  const routes = new Map<string, number[]>();
  const boxes = new Map(seen.map((box) => [box.id, box]));
  const visit = (node: ElkNode, left: number, top: number) => {
    for (const edge of node.edges ?? []) {
      const section = edge.sections?.[0];
      if (!section) continue;
      const corners = [section.startPoint, ...(section.bendPoints ?? []), section.endPoint];
      routes.set(
        edge.id,
        corners.flatMap((point) => [point.x + left, point.y + top]),
      );
    }
    for (const child of node.children ?? []) {
      const [x, y] = [left + (child.x ?? 0), top + (child.y ?? 0)];
      const box = boxes.get(child.id);
      const size = { width: child.width ?? 0, height: child.height ?? 0 };
      if (box) byId.set(child.id, { box, open: open.has(box.id), x, y, ...size });
      visit(child, x, y);
    }
  };
  visit(answer, 0, 0);
  const lines: Line[] = [];
  for (const { from, to } of links) {
    const [a, b] = [byId.get(from.id), byId.get(to.id)];
    if (!a || !b) continue;
    const route = from.parent === to.parent ? routes.get(`${from.id} ${to.id}`) : undefined;
    const points = route ?? curve(a, b);
    lines.push({ from, to, points, across: route === undefined, bounds: boundsOf(points) });
  }
  const placed = seen.flatMap((box) => byId.get(box.id) ?? []);
  return { placed, byId, lines, width: answer.width ?? 0, height: answer.height ?? 0 };
}

/** From side to side where the boxes stand beside each other, else from bottom to top. */
function curve(from: Placed, to: Placed): number[] {
  const right = to.x - (from.x + from.width);
  const left = from.x - (to.x + to.width);
  if (right > 0 || left > 0) {
    const forward = right > 0;
    const [x, y] = [forward ? from.x + from.width : from.x, from.y + from.height / 2];
    const [tox, toy] = [forward ? to.x : to.x + to.width, to.y + to.height / 2];
    const bend = Math.max(24, Math.abs(tox - x) / 2) * (forward ? 1 : -1);
    return [x, y, x + bend, y, tox - bend, toy, tox, toy];
  }
  const down = to.y > from.y;
  const [x, y] = [from.x + from.width / 2, down ? from.y + from.height : from.y];
  const [tox, toy] = [to.x + to.width / 2, down ? to.y : to.y + to.height];
  const bend = Math.max(12, Math.abs(toy - y) / 2) * (down ? 1 : -1);
  return [x, y, x, y + bend, tox, toy - bend, tox, toy];
}

function boundsOf(points: readonly number[]): Line["bounds"] {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  points.forEach((value, at) => {
    if (at % 2 === 0) [left, right] = [Math.min(left, value), Math.max(right, value)];
    else [top, bottom] = [Math.min(top, value), Math.max(bottom, value)];
  });
  return [left, top, right, bottom];
}
