/** A graph's nodes as a tree of modules, which are folded and unfolded, and the edges between what is seen then. */

import type { GraphNode } from "../api/types";

export interface Box {
  /** Phase and path of a module, or a node's place in the graph. */
  readonly id: string;
  readonly label: string;
  /** Dotted, of the module; empty for the whole and for a phase. */
  readonly path: string;
  readonly phase: string;
  readonly parent: Box | null;
  readonly children: Box[];
  /** Places in the graph of all nodes in it. */
  readonly nodes: number[];
  /** The node, where this is one. */
  readonly node: GraphNode | null;
}

export interface PictureOf {
  readonly nodes: readonly GraphNode[];
  readonly edges: readonly (readonly [number, number])[];
}

/** Of a training step, where the loss and what goes with it are: the compiler knows no module of them. */
const ELSE = "loss and others";
const PHASES = ["forward", "backward", "update"];

/** The whole graph as a box. Its children are modules and nodes, or the phases of a training step. A module that holds one
 * thing only is left out in favour of that. */
export function treeOf(nodes: readonly GraphNode[]): Box {
  const root = group("", "", "", "", null);
  const groups = new Map<string, Box>();
  const enter = (id: string, make: () => Box) => {
    const known = groups.get(id) ?? make();
    if (!groups.has(id)) known.parent?.children.push(known);
    groups.set(id, known);
    return known;
  };
  const phases = PHASES.filter((one) => nodes.some((node) => node.phase === one));
  for (const phase of phases) enter(`${phase}:`, () => group(`${phase}:`, phase, "", phase, root));
  nodes.forEach((node, index) => {
    let box = enter(`${node.phase}:`, () => group(`${node.phase}:`, node.phase, "", node.phase, root));
    const parts = node.module.split(/[./]+/).filter(Boolean);
    for (const part of parts.length === 0 && phases.length > 1 ? [ELSE] : parts) {
      const outer = box;
      const path = outer.path === "" ? part : `${outer.path}.${part}`;
      box = enter(`${node.phase}:${path}`, () => group(`${node.phase}:${path}`, part, path, node.phase, outer));
    }
    box.children.push({
      id: String(index),
      label: node.op,
      path: node.module,
      phase: node.phase,
      parent: box,
      children: [],
      nodes: [index],
      node,
    });
  });
  const whole = root.children.length === 1 ? root.children[0] : undefined;
  return shortened(whole ?? root, null);
}

function group(id: string, label: string, path: string, phase: string, parent: Box | null): Box {
  return { id, label, path, phase, parent, children: [], nodes: [], node: null };
}

function shortened(box: Box, parent: Box | null): Box {
  const only = box.children.length === 1 ? box.children[0] : undefined;
  if (only && parent !== null && box.path !== "")
    return shortened(only.node ? only : { ...only, label: `${box.label}.${only.label}` }, parent);
  const copy: Box = { ...box, parent, children: [], nodes: [] };
  for (const child of box.children) {
    const short = shortened(child, copy);
    copy.children.push(short);
    for (const index of short.nodes) copy.nodes.push(index);
  }
  if (box.node) copy.nodes.push(...box.nodes);
  return copy;
}

/** Every module in it, the outer before the inner. */
export function modulesOf(root: Box): Box[] {
  const found: Box[] = [];
  const visit = (box: Box) => {
    for (const child of box.children) {
      if (child.node) continue;
      found.push(child);
      visit(child);
    }
  };
  visit(root);
  return found;
}

/** What to unfold at first: from the outside in, the phases always, as long as no more than `most` boxes are seen. */
export function firstOpen(root: Box, most: number): Set<string> {
  const open = new Set<string>();
  let seen = root.children.length;
  let layer = root.children.filter((child) => !child.node);
  while (layer.length > 0) {
    const next: Box[] = [];
    for (const box of layer) {
      if (box.path !== "" && seen + box.children.length > most) continue;
      open.add(box.id);
      seen += box.children.length;
      next.push(...box.children.filter((child) => !child.node));
    }
    layer = next;
  }
  return open;
}

/** Boxes that are seen, outer before inner, in the order in which they run; a module that is open comes before its parts. */
export function seenOf(root: Box, open: ReadonlySet<string>): Box[] {
  const seen: Box[] = [];
  const visit = (box: Box) => {
    for (const child of box.children) {
      seen.push(child);
      if (open.has(child.id)) visit(child);
    }
  };
  visit(root);
  return seen;
}

/** Of each node, by its place in the graph, the innermost box that is seen. */
export function standsFor(seen: readonly Box[], open: ReadonlySet<string>): Map<number, Box> {
  const found = new Map<number, Box>();
  for (const box of seen) {
    if (!open.has(box.id)) for (const index of box.nodes) found.set(index, box);
  }
  return found;
}

/** Modules around a box, the outermost first. */
export function around(box: Box): Box[] {
  const found: Box[] = [];
  for (let outer = box.parent; outer; outer = outer.parent) found.unshift(outer);
  return found;
}

export interface Link {
  readonly from: Box;
  readonly to: Box;
  /** The innermost box that holds both, and its children that hold one each: they are laid out by such links. */
  readonly within: Box;
  readonly outer: readonly [Box, Box];
}

/** Links between boxes that are seen, each pair once. */
export function linksOf(edges: PictureOf["edges"], stands: ReadonlyMap<number, Box>): Link[] {
  const found = new Map<string, Link>();
  const paths = new Map<Box, Box[]>();
  const pathOf = (box: Box) => {
    const known = paths.get(box) ?? [...around(box), box];
    paths.set(box, known);
    return known;
  };
  for (const [maker, reader] of edges) {
    const [from, to] = [stands.get(maker), stands.get(reader)];
    if (!from || !to || from === to || found.has(`${from.id} ${to.id}`)) continue;
    const [a, b] = [pathOf(from), pathOf(to)];
    let depth = 0;
    while (a[depth] === b[depth]) depth += 1;
    const [within, first, second] = [a[depth - 1], a[depth], b[depth]];
    if (within && first && second) found.set(`${from.id} ${to.id}`, { from, to, within, outer: [first, second] });
  }
  return [...found.values()];
}

/** Boxes whose name, module or operator has the text in it: nodes, and modules by the end of their path. */
export function sought(root: Box, text: string): Box[] {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return [];
  const found: Box[] = [];
  const visit = (box: Box) => {
    const own = box.node ? `${box.node.name} ${box.node.op} ${box.node.module}` : box.label;
    if (own.toLowerCase().includes(wanted)) found.push(box);
    box.children.forEach(visit);
  };
  root.children.forEach(visit);
  return found;
}
