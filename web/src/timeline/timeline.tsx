/** The memory timeline: every planned value as a box over (node, offset), and what is alive at one node. */

import { useMemo, useState } from "preact/hooks";
import type { Slot } from "../api/types";
import { TableFrame } from "../components/page";
import * as format from "../format";
import { useWidth } from "../hooks";
import { aliveAt, boxes, liveBytes, livePath, peakNode, phaseBands, type Plan, ticks } from "./layout";

const LEFT = 68;
const RIGHT = 12;
const TOP = 14;
const PLOT = 320;
const STRIP = 18;
const BOTTOM = 30;
const KINDS = ["activation", "gradient", "workspace", "output"];
const ROWS = 12;

const kindClass = (slot: Slot) => `slot-${KINDS.includes(slot.kind) ? slot.kind : "other"}`;

export function MemoryTimeline({ program }: { readonly program: Plan }) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const live = useMemo(() => liveBytes(program), [program]);
  const peak = peakNode(live);
  const [chosen, setChosen] = useState<number | null>(null);
  const [hovered, setHovered] = useState<Slot | null>(null);
  const node = chosen ?? peak;
  const present = new Set(program.slots.map((slot) => slot.kind));
  const kinds = [...KINDS.filter((kind) => present.delete(kind)), ...present];
  const phases = [...new Set(program.nodes.map((planned) => planned.phase))];

  if (program.nodes.length === 0 || program.slots.length === 0)
    return <p class="note">This program keeps nothing in the arena.</p>;
  return (
    <div class="timeline">
      <ul class="legend">
        {kinds.map((kind) => (
          <li key={kind}>
            <span class={`swatch slot-${KINDS.includes(kind) ? kind : "other"}`} aria-hidden="true" /> {kind}
          </li>
        ))}
        <li>
          <span class="swatch swatch-live" aria-hidden="true" /> live bytes
        </li>
        <li>
          <span class="swatch swatch-bound" aria-hidden="true" /> lower bound
        </li>
        {phases.map((phase) => (
          <li key={phase}>
            <span class={`swatch phase-${phase}`} aria-hidden="true" /> {phase} nodes
          </li>
        ))}
      </ul>
      <div ref={frame} class="timeline-frame">
        {width > 0 && (
          <Drawing program={program} live={live} node={node} width={width} hovered={hovered} onHover={setHovered} />
        )}
      </div>
      <p class="hovered" aria-hidden="true">
        {hovered ? <SlotText slot={hovered} program={program} /> : "Point at a value to see its name and bytes."}
      </p>
      <label class="node-picker">
        <span>
          Node {node} of {program.nodes.length - 1}
          {node === peak ? " (the peak)" : ""}: {program.nodes[node]?.name}, {format.bytes(live[node])} alive
        </span>
        <input
          type="range"
          min={0}
          max={program.nodes.length - 1}
          value={node}
          onInput={(event) => setChosen(Number(event.currentTarget.value))}
        />
      </label>
      {chosen !== null && chosen !== peak && (
        <button type="button" class="button" onClick={() => setChosen(null)}>
          Back to the peak
        </button>
      )}
      <Alive program={program} node={node} peak={peak} total={live[node] ?? 0} onHover={setHovered} />
    </div>
  );
}

/** "conv2d, node_Conv_7": the node that a value comes from, which says more than the compiler's name for the value. */
function makerOf(slot: Slot, program: Plan): string {
  const maker = program.nodes[slot.first];
  return maker ? `${maker.op}, ${maker.name}` : format.NOTHING;
}

function SlotText({ slot, program }: { readonly slot: Slot; readonly program: Plan }) {
  return (
    <>
      <strong>{slot.value}</strong> · {format.bytes(slot.nbytes)} ({slot.nbytes.toLocaleString("en-US")} bytes) ·{" "}
      {slot.kind} of {makerOf(slot, program)} · offset {slot.offset.toLocaleString("en-US")} · nodes {slot.first}–
      {slot.last}
    </>
  );
}

interface DrawingProps {
  readonly program: Plan;
  readonly live: readonly number[];
  readonly node: number;
  readonly width: number;
  readonly hovered: Slot | null;
  readonly onHover: (slot: Slot | null) => void;
}

function Drawing({ program, live, node, width, hovered, onHover }: DrawingProps) {
  const inner = Math.max(60, width - LEFT - RIGHT);
  const top = Math.max(program.arenaBytes, program.lowerBoundBytes, 1);
  const drawn = useMemo(() => boxes(program, inner, PLOT, top), [program, inner, top]);
  const line = useMemo(() => livePath(live, inner, PLOT, top), [live, inner, top]);
  const y = (bytes: number) => PLOT - (bytes / top) * PLOT;
  const columns = program.nodes.length;
  const x = (index: number) => (index / columns) * inner;
  const total = TOP + PLOT + STRIP + BOTTOM;
  const description =
    `Arena of ${format.bytes(program.arenaBytes)} over ${columns} nodes; ` +
    `lower bound ${format.bytes(program.lowerBoundBytes)}; peak of ${format.bytes(live[peakNode(live)])} ` +
    `at node ${peakNode(live)}.`;
  return (
    <svg width={width} height={total} role="img" aria-label={description} onPointerLeave={() => onHover(null)}>
      <g transform={`translate(${LEFT} ${TOP})`}>
        {ticks(top, 5, 2).map((value) => (
          <g key={value}>
            <line class="grid-line" x1={0} x2={inner} y1={y(value)} y2={y(value)} />
            <text class="tick" x={-8} y={y(value) + 4} text-anchor="end">
              {format.bytes(value)}
            </text>
          </g>
        ))}
        {drawn.map(({ slot, ...place }, index) => {
          const alive = slot.first <= node && node <= slot.last;
          return (
            <rect
              key={index}
              {...place}
              class={`slot ${kindClass(slot)}${alive ? " slot-alive" : ""}${slot === hovered ? " slot-hovered" : ""}`}
              data-value={slot.value}
              onPointerEnter={() => onHover(slot)}
            />
          );
        })}
        <path class="live-line" d={line} />
        <line class="bound-line" x1={0} x2={inner} y1={y(program.lowerBoundBytes)} y2={y(program.lowerBoundBytes)} />
        <line class="node-line" x1={x(node + 0.5)} x2={x(node + 0.5)} y1={0} y2={PLOT + STRIP} />
        {phaseBands(program.nodes).map((band) => (
          <rect
            key={band.first}
            class={`phase phase-${band.phase}`}
            x={x(band.first)}
            width={Math.max(0.5, x(band.last + 1) - x(band.first))}
            y={PLOT + 6}
            height={STRIP - 8}
          />
        ))}
        {ticks(columns - 1, Math.max(2, inner / 90), 10).map((value) => (
          <text key={value} class="tick" x={x(value + 0.5)} y={PLOT + STRIP + 14} text-anchor="middle">
            {value}
          </text>
        ))}
      </g>
    </svg>
  );
}

interface AliveProps {
  readonly program: Plan;
  readonly node: number;
  readonly peak: number;
  readonly total: number;
  readonly onHover: (slot: Slot | null) => void;
}

function Alive({ program, node, peak, total, onHover }: AliveProps) {
  const alive = aliveAt(program, node);
  const [all, setAll] = useState(false);
  const title = node === peak ? "Alive at the peak" : `Alive at node ${node}`;
  return (
    <>
      <h3>
        {title}: {alive.length} values, {format.bytes(total)}
      </h3>
      <TableFrame label={title}>
        <table>
          <thead>
            <tr>
              <th scope="col">Value</th>
              <th scope="col">Made by</th>
              <th scope="col">Kind</th>
              <th scope="col" class="number">
                Bytes
              </th>
              <th scope="col" class="number">
                Share
              </th>
              <th scope="col" class="number">
                Nodes
              </th>
            </tr>
          </thead>
          <tbody>
            {(all ? alive : alive.slice(0, ROWS)).map((slot, index) => (
              <tr key={index} onPointerEnter={() => onHover(slot)} onPointerLeave={() => onHover(null)}>
                <td class="mono">{slot.value}</td>
                <td>{makerOf(slot, program)}</td>
                <td class="nowrap">
                  <span class={`swatch ${kindClass(slot)}`} aria-hidden="true" /> {slot.kind}
                </td>
                <td class="number" title={`${slot.nbytes} bytes`}>
                  {format.bytes(slot.nbytes)}
                </td>
                <td class="number">{format.percent(total === 0 ? null : slot.nbytes / total)}</td>
                <td class="number">
                  {slot.first}–{slot.last}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
      {alive.length > ROWS && (
        <button type="button" class="button" onClick={() => setAll(!all)}>
          {all ? "Show the largest" : `Show all ${alive.length}`}
        </button>
      )}
    </>
  );
}
