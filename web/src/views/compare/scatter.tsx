/** Accuracy against what it costs, a point a run, with the runs that no other one beats. */

import * as format from "../../format";
import { TableFrame } from "../../components/page";
import { address, setQuery } from "../../router";
import { front, type Point, type Row, scale } from "./rows";

export const WIDTH = 640;
export const HEIGHT = 300;
const LEFT = 60;
const BOTTOM = 40;
const EDGE = 12;

const COSTS = {
  peak: { name: "Measured peak memory", text: format.bytes },
  step: { name: "Median step time", text: format.milliseconds },
} as const;
export type Cost = keyof typeof COSTS;

export interface Drawn {
  readonly row: Row;
  readonly x: number;
  readonly y: number;
  readonly best: boolean;
  readonly text: string;
}

/** Where the points are, the line through the best ones, and the ends of the axes. */
export function drawing(rows: readonly Row[], cost: Cost) {
  const points = rows.flatMap((row): (Point & { readonly row: Row })[] => {
    const [x, y] = [row[cost], row.accuracy];
    return x === null || y === null ? [] : [{ id: row.id, x, y, row }];
  });
  const [xs, ys] = [points.map(({ x }) => x), points.map(({ y }) => y)];
  const acrossOf = scale(xs, LEFT, WIDTH - EDGE);
  const upOf = scale(ys, HEIGHT - BOTTOM, EDGE);
  const best = front(points);
  const { name, text } = COSTS[cost];
  const drawn = points.map(({ row, x, y }): Drawn => {
    const isBest = best.some(({ id }) => id === row.id);
    const said = `${row.name} on ${row.device}: ${format.percent(y)}, ${text(x)}${isBest ? ", on the front" : ""}`;
    return { row, x: acrossOf(x), y: upOf(y), best: isBest, text: said };
  });
  const line = best.map(({ x, y }) => `${acrossOf(x).toFixed(1)},${upOf(y).toFixed(1)}`).join(" ");
  const ends = (values: readonly number[]) => [...new Set([Math.min(...values), Math.max(...values)])];
  const labels =
    points.length === 0
      ? []
      : [
          ...ends(xs).map((x) => ({
            x: acrossOf(x),
            y: HEIGHT - BOTTOM + 16,
            anchor: "middle" as const,
            text: text(x),
          })),
          ...ends(ys).map((y) => ({ x: LEFT - 6, y: upOf(y) + 4, anchor: "end" as const, text: format.percent(y) })),
          { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, anchor: "middle" as const, text: `${name} (less is better)` },
        ];
  const axes = `M${LEFT},${EDGE}V${HEIGHT - BOTTOM}H${WIDTH - EDGE}`;
  return { drawn, line, labels, axes };
}

interface ScatterProps {
  readonly rows: readonly Row[];
  readonly selected: string | null;
  readonly onSelect: (id: string) => void;
}

export function costOf(): Cost {
  return address.value?.query.get("cost") === "step" ? "step" : "peak";
}

export function Scatter({ rows, selected, onSelect }: ScatterProps) {
  const cost = costOf();
  const { drawn, line, labels, axes } = drawing(rows, cost);
  return (
    <>
      <label class="check on-screen">
        Against
        <select value={cost} onChange={(event) => setQuery({ cost: event.currentTarget.value })}>
          {Object.entries(COSTS).map(([key, { name }]) => (
            <option key={key} value={key}>
              {name.toLowerCase()}
            </option>
          ))}
        </select>
      </label>
      {drawn.length === 0 ? (
        <p class="note">No run has told both yet.</p>
      ) : (
        <TableFrame label="Points">
          <svg class="scatter" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="group" aria-label="Accuracy against cost">
            <path class="axes" d={axes} />
            {labels.map(({ x, y, anchor, text }) => (
              <text key={text + anchor} x={x} y={y} text-anchor={anchor}>
                {text}
              </text>
            ))}
            <polyline class="front" points={line} />
            {drawn.map(({ row, x, y, best, text }) => (
              <g
                key={row.id}
                role="button"
                tabindex={0}
                aria-pressed={row.id === selected}
                aria-label={text}
                onClick={() => onSelect(row.id)}
                onKeyDown={(event) => {
                  if (event.key !== "Enter" && event.key !== " ") return;
                  event.preventDefault();
                  onSelect(row.id);
                }}
              >
                <title>{text}</title>
                {row.id === selected && <circle class="ring" cx={x} cy={y} r={12} />}
                <circle class={row.color} cx={x} cy={y} r={best ? 7 : 5} />
              </g>
            ))}
          </svg>
        </TableFrame>
      )}
      <p class="note">Large points on the line are the front: no other run is as accurate for less.</p>
    </>
  );
}
