/** Beside a graph: what its colours mean, and what is selected. */

import type { GraphNode, GraphPicture } from "../../api/types";
import { Facts } from "../../components/figures";
import { Path } from "../../components/path";
import * as format from "../../format";
import { type ColourBy, COLOURS, measured, measureText, TRAINED, type Trained, trainedOf } from "../../graph/colours";
import type { Box } from "../../graph/tree";

interface LegendProps {
  readonly by: ColourBy;
  /** The boxes that have a colour. */
  readonly boxes: readonly Box[];
  readonly nodes: readonly GraphNode[];
}

const STEPS = [0, 1, 2, 3, 4];

export function Legend({ by, boxes, nodes }: LegendProps) {
  if (by === "trained") {
    const present = new Set(boxes.map((box) => trainedOf(box, nodes)));
    const kinds = (Object.keys(TRAINED) as Trained[]).filter((kind) => present.has(kind));
    return (
      <ul class="legend graph-legend" aria-label="Colours">
        {kinds.map((kind) => (
          <li key={kind}>
            <span class={`swatch graph-${kind}`} aria-hidden="true" /> {TRAINED[kind]}
          </li>
        ))}
        {present.size === 1 && present.has("none") && <li>What is trained is known of a training step only.</li>}
      </ul>
    );
  }
  const most = boxes.reduce((one, box) => Math.max(one, measured(box, nodes, by)), 0);
  const last = STEPS.length - 1;
  return (
    <ul class="legend graph-legend" aria-label="Colours">
      <li>
        {COLOURS[by]}
        {by === "time" && ", by the compiler's model of one core"}:
      </li>
      {STEPS.map((step) => (
        <li key={step}>
          <span class={`swatch graph-heat-${step}`} aria-hidden="true" /> {measureText(most * (step / last) ** 2, by)}
        </li>
      ))}
    </ul>
  );
}

interface ChosenProps {
  readonly id: string | null;
  readonly root: Box;
  readonly picture: GraphPicture;
  readonly onShow: (box: Box) => void;
}

export function boxOf(root: Box, id: string): Box | null {
  if (root.id === id) return root;
  for (const child of root.children) {
    const found = boxOf(child, id);
    if (found) return found;
  }
  return null;
}

/** How many neighbours are named. */
const FEW = 8;

export function Chosen({ id, root, picture, onShow }: ChosenProps) {
  const box = id === null ? null : boxOf(root, id);
  return (
    <div class="graph-chosen" aria-live="polite">
      {box === null ? (
        <p class="note">Select a node or a module to see what it is.</p>
      ) : (
        <>
          <h3>
            {box.node ? box.node.op : "Module"} <Path of={box.node ? box.node.name : box.path || box.label} />
          </h3>
          <Facts items={factsOf(box, picture.nodes)} />
          <Neighbours box={box} root={root} picture={picture} onShow={onShow} />
        </>
      )}
    </div>
  );
}

function factsOf(box: Box, nodes: readonly GraphNode[]): (readonly [string, string])[] {
  const of = (by: "time" | "operations" | "bytes") => measureText(measured(box, nodes, by), by);
  const own: (readonly [string, string])[] = box.node
    ? [
        ["Module", box.node.module || "none"],
        ["Result", format.shape(box.node.shape)],
      ]
    : [["Nodes", format.count(box.nodes.length)]];
  const us = box.node?.expected_us;
  return [
    ...own,
    ["Phase", box.phase || "all"],
    [
      "Expected time",
      box.node && (us === null || us === undefined) ? "none: a view, or folded into others" : of("time"),
    ],
    ["Operations", of("operations")],
    ["Bytes of results", of("bytes")],
    ["Parameters", TRAINED[trainedOf(box, nodes)]],
  ];
}

/** Nodes outside from which it reads, and which read it. */
function Neighbours({ box, root, picture, onShow }: Omit<ChosenProps, "id"> & { readonly box: Box }) {
  const inside = new Set(box.nodes);
  const makers = new Set<number>();
  const readers = new Set<number>();
  for (const [maker, reader] of picture.edges) {
    if (inside.has(reader) && !inside.has(maker)) makers.add(maker);
    if (inside.has(maker) && !inside.has(reader)) readers.add(reader);
  }
  const list = (title: string, found: ReadonlySet<number>) =>
    found.size > 0 && (
      <div>
        <h4>{title}</h4>
        <ul class="graph-neighbours">
          {[...found].slice(0, FEW).map((index) => {
            const node = picture.nodes[index];
            const other = boxOf(root, String(index));
            return (
              node &&
              other && (
                <li key={index}>
                  <button type="button" class="link" onClick={() => onShow(other)}>
                    {node.op} {node.name}
                  </button>
                </li>
              )
            );
          })}
          {found.size > FEW && <li class="faint">and {found.size - FEW} more</li>}
        </ul>
      </div>
    );
  return (
    <div class="graph-sides">
      {list("Reads", makers)}
      {list("Is read by", readers)}
    </div>
  );
}
