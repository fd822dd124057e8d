/** The memory timeline: every planned value as a box over (node, offset), and what is alive at one node. What of it is shown
 * and what is selected stand in the address. */

import { useMemo, useState } from "preact/hooks";
import type { Slot } from "../api/types";
import { moved, type Span, zoomed } from "../components/pan";
import * as format from "../format";
import { useWidth } from "../hooks";
import { address, setQuery } from "../router";
import { Alive } from "./alive";
import { boxes, liveBytes, livePath, nameOf, peakNode, phaseBands, type Plan, spanOf, ticks } from "./layout";
import { KINDS, kindClass, SlotText } from "./slot";

const LEFT = 68;
const RIGHT = 12;
const TOP = 14;
const PLOT = 320;
const STRIP = 18;
const BOTTOM = 30;
/** Of the slider's thumb: its middle stands on the line. */
const THUMB = 16;
const ZOOM = 2;
const MOVE = 0.5;

export function MemoryTimeline({ program }: { readonly program: Plan }) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const live = useMemo(() => liveBytes(program), [program]);
  const peak = peakNode(live);
  const [hovered, setHovered] = useState<Slot | null>(null);
  const query = address.value?.query;
  const last = program.nodes.length - 1;
  const said = query?.get("at") ?? null;
  const chosen = said !== null && /^\d+$/.test(said) && Number(said) <= last ? Number(said) : null;
  const selected = program.slots.find((slot) => slot.value === query?.get("value")) ?? null;
  const whole: Span = { from: 0, to: program.nodes.length };
  const span = spanOf(query?.get("nodes") ?? null, whole);
  const isWhole = span.from === whole.from && span.to === whole.to;
  const node = Math.max(span.from, Math.min(span.to - 1, chosen ?? peak));
  const choose = (index: number | null) => setQuery({ at: index === null ? null : String(index) });
  const select = (slot: Slot | null) => setQuery({ value: slot?.value });
  const show = ({ from, to }: Span) => {
    const part = { from: Math.floor(from), to: Math.ceil(to) };
    setQuery({ nodes: part.from <= 0 && part.to >= whole.to ? null : `${part.from}-${part.to}` });
  };
  const zoom = (factor: number) => show(zoomed(span, whole, factor, (node + 0.5 - span.from) / (span.to - span.from)));
  const move = (share: number) => show(moved(span, whole, share * (span.to - span.from)));
  const toPeak = () => setQuery({ at: null, nodes: span.from <= peak && peak < span.to ? query?.get("nodes") : null });
  const inner = Math.max(60, width - LEFT - RIGHT);
  const column = inner / (span.to - span.from);
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
          <Drawing
            program={program}
            live={live}
            node={node}
            width={width}
            span={span}
            hovered={hovered}
            selected={selected}
            onHover={setHovered}
            onSelect={select}
          />
        )}
      </div>
      <label class="node-picker">
        {width > 0 && (
          <input
            type="range"
            min={span.from}
            max={span.to - 1}
            value={node}
            style={{
              marginLeft: `${LEFT + column / 2 - THUMB / 2}px`,
              width: `${Math.max(THUMB, inner - column + THUMB)}px`,
            }}
            onInput={(event) => choose(Number(event.currentTarget.value))}
          />
        )}
        <span>
          Node {node} of {last}
          {node === peak ? " (the peak)" : ""}: {program.nodes[node]?.name}, {format.bytes(live[node])} alive
        </span>
      </label>
      <div class="actions">
        <button type="button" class="button" onClick={() => zoom(1 / ZOOM)}>
          Closer
        </button>
        <button type="button" class="button" disabled={isWhole} onClick={() => zoom(ZOOM)}>
          Farther
        </button>
        <button type="button" class="button" disabled={span.from === 0} onClick={() => move(-MOVE)}>
          Earlier
        </button>
        <button type="button" class="button" disabled={span.to === whole.to} onClick={() => move(MOVE)}>
          Later
        </button>
        <button type="button" class="button" disabled={isWhole} onClick={() => show(whole)}>
          All nodes
        </button>
        {node !== peak && (
          <button type="button" class="button" onClick={toPeak}>
            Back to the peak
          </button>
        )}
      </div>
      <p class="hovered" aria-hidden="true">
        {hovered ? (
          <SlotText slot={hovered} program={program} />
        ) : (
          "Point at a value to see its name and bytes; click to keep it."
        )}
      </p>
      {selected && (
        <div class="selected-value" role="status">
          <p>
            Selected: <SlotText slot={selected} program={program} />
          </p>
          <button type="button" class="button" onClick={() => select(null)}>
            Select nothing
          </button>
        </div>
      )}
      <Alive program={program} node={node} peak={peak} total={live[node] ?? 0} onHover={setHovered} onSelect={select} />
    </div>
  );
}

interface DrawingProps {
  readonly program: Plan;
  readonly live: readonly number[];
  readonly node: number;
  readonly width: number;
  readonly span: Span;
  readonly hovered: Slot | null;
  readonly selected: Slot | null;
  readonly onHover: (slot: Slot | null) => void;
  readonly onSelect: (slot: Slot | null) => void;
}

function Drawing({ program, live, node, width, span, hovered, selected, onHover, onSelect }: DrawingProps) {
  const inner = Math.max(60, width - LEFT - RIGHT);
  const top = Math.max(program.arenaBytes, program.lowerBoundBytes, 1);
  const columns = program.nodes.length;
  const wide = (inner * columns) / (span.to - span.from);
  const drawn = useMemo(() => boxes(program, wide, PLOT, top), [program, wide, top]);
  const line = useMemo(() => livePath(live, wide, PLOT, top), [live, wide, top]);
  const y = (bytes: number) => PLOT - (bytes / top) * PLOT;
  const x = (index: number) => (index / columns) * wide;
  const shift = -x(span.from);
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
        <svg width={inner} height={PLOT + STRIP + BOTTOM}>
          <g transform={`translate(${shift} 0)`}>
            {drawn.map(({ slot, ...place }, index) => {
              const alive = slot.first <= node && node <= slot.last;
              const marked = slot === hovered || slot === selected;
              return (
                <rect
                  key={index}
                  {...place}
                  class={`slot ${kindClass(slot)}${alive ? " slot-alive" : ""}${marked ? " slot-hovered" : ""}`}
                  data-value={slot.value}
                  onPointerEnter={() => onHover(slot)}
                  onClick={() => onSelect(slot === selected ? null : slot)}
                >
                  <title>{nameOf(slot, program)}</title>
                </rect>
              );
            })}
            <path class="live-line" d={line} />
            <line class="bound-line" x1={0} x2={wide} y1={y(program.lowerBoundBytes)} y2={y(program.lowerBoundBytes)} />
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
            {ticks(columns - 1, Math.max(2, wide / 90), 10).map((value) => (
              <text key={value} class="tick" x={x(value + 0.5)} y={PLOT + STRIP + 14} text-anchor="middle">
                {value}
              </text>
            ))}
          </g>
        </svg>
      </g>
    </svg>
  );
}
