import { describe, expect, it } from "vitest";
import type { GraphNode } from "../api/types";
import { fills, heat, lightness, measured, mixed, trainedOf } from "./colours";
import { askedOf, drawingOf } from "./layout";
import { neighbour } from "./paint";
import { around, firstOpen, linksOf, modulesOf, seenOf, sought, standsFor, treeOf } from "./tree";

const node = (module: string, phase: GraphNode["phase"] = "forward", more: Partial<GraphNode> = {}): GraphNode => ({
  name: `${module}.op`,
  op: "conv2d",
  module,
  phase,
  flops: 10,
  bytes: 4,
  shape: [1],
  trained: null,
  expected_us: 2,
  ...more,
});

const NODES = [node("stem"), node("body.a.one"), node("body.a.two"), node("body.b"), node("body.b"), node("head")];
const EDGES: [number, number][] = NODES.slice(1).map((_, index) => [index, index + 1]);
const ids = (boxes: readonly { readonly id: string }[]) => boxes.map(({ id }) => id);

describe("the tree of modules", () => {
  const root = treeOf(NODES);

  it("leaves out a module that holds one thing only", () => {
    expect(ids(root.children)).toEqual(["0", "forward:body", "5"]);
    expect(ids(modulesOf(root))).toEqual(["forward:body", "forward:body.a", "forward:body.b"]);
    expect(root.children[1]?.nodes).toEqual([1, 2, 3, 4]);
  });

  it("joins the names of modules in which nothing else is", () => {
    const deep = treeOf([node("a.b.one"), node("a.b.two"), node("c")]);
    expect(deep.children[0]).toMatchObject({ id: "forward:a.b", label: "a.b" });
  });

  it("parts a training step by its phases, and names what is of no module", () => {
    const step = treeOf([node("a"), node(""), node("a", "backward"), node("a", "update")]);
    expect(ids(step.children)).toEqual(["forward:", "backward:", "update:"]);
    expect(firstOpen(step, 0)).toEqual(new Set(["forward:", "backward:", "update:"]));
  });

  it("unfolds from the outside in, as far as there is room", () => {
    expect(firstOpen(root, 3)).toEqual(new Set());
    expect(firstOpen(root, 5)).toEqual(new Set(["forward:body"]));
    expect(firstOpen(root, 99).size).toBe(3);
  });

  it("shows what is open, each node standing in the innermost box that is seen", () => {
    const open = new Set(["forward:body", "forward:body.b"]);
    const seen = seenOf(root, open);
    expect(ids(seen)).toEqual(["0", "forward:body", "forward:body.a", "forward:body.b", "3", "4", "5"]);
    const stands = standsFor(seen, open);
    expect([0, 1, 2, 3, 4, 5].map((index) => stands.get(index)?.id)).toEqual([
      "0",
      "forward:body.a",
      "forward:body.a",
      "3",
      "4",
      "5",
    ]);
    const links = linksOf(EDGES, stands);
    expect(links.map(({ from, to, within }) => [from.id, to.id, within.id])).toEqual([
      ["0", "forward:body.a", "forward:"],
      ["forward:body.a", "3", "forward:body"],
      ["3", "4", "forward:body.b"],
      ["4", "5", "forward:"],
    ]);
    expect(ids(links[1]?.outer ?? [])).toEqual(["forward:body.a", "forward:body.b"]);
  });

  it("finds nodes and modules by a part of their names", () => {
    expect(ids(sought(root, "TWO"))).toEqual(["2"]);
    expect(ids(sought(root, "body"))).toEqual(["forward:body", "1", "2", "3", "4"]);
    expect(sought(root, " ")).toEqual([]);
    const [two] = sought(root, "two");
    expect(two && ids(around(two))).toEqual(["forward:", "forward:body", "forward:body.a"]);
  });

  it("holds as many as ten thousand nodes", () => {
    const many = Array.from({ length: 10_000 }, (_, index) => node(`m${index % 100}`));
    expect(treeOf(many).nodes).toHaveLength(10_000);
  });
});

describe("the layout", () => {
  const root = treeOf(NODES);
  const open = new Set(["forward:body"]);
  const seen = seenOf(root, open);
  const links = linksOf(EDGES, standsFor(seen, open));

  it("asks of each module for links between its own parts only", () => {
    const asked = askedOf(root, open, links);
    expect(asked.edges?.map(({ id }) => id)).toEqual(["0 forward:body", "forward:body 5"]);
    expect(asked.children?.[1]?.edges?.map(({ id }) => id)).toEqual(["forward:body.a forward:body.b"]);
  });

  it("turns the answer into places in one drawing", () => {
    const place = (id: string, y: number) => ({ id, x: 10, y, width: 100, height: 40 });
    const section = { id: "s", startPoint: { x: 1, y: 2 }, endPoint: { x: 3, y: 4 } };
    const inner = { id: "forward:body.a forward:body.b", sources: [], targets: [], sections: [section] };
    const drawing = drawingOf(
      {
        id: "whole",
        width: 300,
        height: 500,
        children: [
          place("0", 0),
          {
            ...place("forward:body", 60),
            height: 200,
            children: [place("forward:body.a", 30), place("forward:body.b", 90)],
            edges: [inner],
          },
          place("5", 300),
        ],
      },
      seen,
      open,
      links,
    );
    expect(drawing.byId.get("forward:body.b")).toMatchObject({ x: 20, y: 150 });
    const of = (from: string) => drawing.lines.find((line) => line.from.id === from);
    expect(of("forward:body.a")).toMatchObject({ points: [11, 62, 13, 64], across: false });
    expect(of("0")).toMatchObject({ across: true });
    expect(of("0")?.points.slice(-2)).toEqual([70, 90]);
    expect(neighbour(drawing, null, [0, 1])?.box.id).toBe("0");
    expect(neighbour(drawing, "0", [0, 1])?.box.id).toBe("forward:body");
    expect(neighbour(drawing, "5", [0, -1])?.box.id).toBe("forward:body.b");
    expect(neighbour(drawing, "forward:body.b", [1, 0])).toBeUndefined();
  });
});

describe("colours", () => {
  const root = treeOf(NODES);
  const palette = {
    card: "#ffffff",
    heat: "#000000",
    trained: { all: "#a", part: "#b", frozen: "#c", none: "#d" },
  };

  it("sums a module's nodes", () => {
    const body = root.children[1];
    expect(body && measured(body, NODES, "operations")).toBe(40);
    expect(body && measured(body, NODES, "time")).toBeCloseTo(0.008);
    const found = fills(root.children, NODES, "bytes", palette);
    expect(found.most).toBe(16);
    expect(found.of.get("forward:body")).toBe("#000000");
    expect(found.of.get("0")).toBe("#808080");
  });

  it("tells what is trained of a module", () => {
    const nodes = [
      node("a", "forward", { trained: "all" }),
      node("a", "forward", { trained: "frozen" }),
      node("b", "forward", { trained: "frozen" }),
      node("c", "forward", { trained: "channels" }),
      node("d"),
    ];
    const found = treeOf(nodes).children.map((box) => trainedOf(box, nodes));
    expect(found).toEqual(["part", "frozen", "part", "none"]);
  });

  it("reads colours of three and six digits", () => {
    expect(mixed("#fff", "#000000", 0.5)).toBe("#808080");
    expect(lightness("#fff")).toBeCloseTo(1);
    expect([heat(0, 4), heat(1, 4), heat(4, 4), heat(1, 0)]).toEqual([0, 0.5, 1, 0]);
  });
});
