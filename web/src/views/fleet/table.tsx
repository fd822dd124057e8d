/** The table of the fleet. Only the rows that are seen are drawn; one tab stop, and the arrows go from row to row. */

import { useState } from "preact/hooks";
import type { Device } from "../../api/types";
import { ByAndBy } from "../../components/later";
import { memo } from "../../components/memo";
import { ProblemBox } from "../../components/page";
import { go, link, setQuery } from "../../router";
import type { Asked, Sort } from "./asked";
import { COLUMNS } from "./columns";
import type { Rows } from "./rows";
import type { Selection } from "./selection";
import type { Virtual } from "./virtual";

export const ROW = 40;
export const HEAD = 38;

interface TableProps {
  readonly asked: Asked;
  readonly rows: Rows;
  readonly virtual: Virtual;
  readonly selection: Selection;
}

const rowId = (index: number) => `device-row-${index}`;

export function FleetTable({ asked, rows, virtual, selection }: TableProps) {
  const [active, setActive] = useState(0);
  const count = rows.total ?? 0;
  const at = Math.min(active, Math.max(0, count - 1));
  const { items, fit } = virtual;
  const move = (index: number) => {
    const next = Math.max(0, Math.min(count - 1, index));
    setActive(next);
    virtual.scrollTo(next);
  };
  const steps: Readonly<Record<string, () => void>> = {
    ArrowDown: () => move(at + 1),
    ArrowUp: () => move(at - 1),
    PageDown: () => move(at + fit),
    PageUp: () => move(at - fit),
    Home: () => move(0),
    End: () => move(count - 1),
    Enter: () => {
      const device = rows.at(at);
      if (device) go(link.device(device.id));
    },
    " ": () => {
      const device = rows.at(at);
      if (device) selection.toggle(device);
    },
  };
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget || count === 0) return;
    if ((event.ctrlKey || event.metaKey) && event.key === "a") selection.takeAll();
    else if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in steps)) return;
    else steps[event.key]?.();
    event.preventDefault();
  };
  const drawn = items.some(({ index }) => index === at);
  return (
    <>
      {rows.problem && <ProblemBox problem={rows.problem} retry={rows.reload} />}
      <div
        ref={virtual.frame}
        class={rows.late ? "fleet-frame fleet-late" : "fleet-frame"}
        role="grid"
        aria-label="Devices"
        aria-rowcount={rows.total === null ? -1 : count + 1}
        aria-colcount={COLUMNS.length + 1}
        aria-multiselectable="true"
        aria-busy={rows.late || rows.total === null}
        aria-activedescendant={drawn && count > 0 ? rowId(at) : undefined}
        tabIndex={0}
        onKeyDown={onKeyDown}
      >
        <Head asked={asked} selection={selection} />
        <div class="fleet-body" role="rowgroup" style={{ height: `${virtual.height}px` }}>
          <ByAndBy of={items}>
            {({ index, start }) => {
              const device = rows.at(index);
              return (
                <Row
                  key={index}
                  index={index}
                  top={start}
                  device={device}
                  active={index === at}
                  chosen={device !== undefined && selection.has(device.id)}
                  fixed={selection.all}
                  onActive={setActive}
                  onToggle={selection.toggle}
                />
              );
            }}
          </ByAndBy>
        </div>
      </div>
    </>
  );
}

function Head({ asked, selection }: { readonly asked: Asked; readonly selection: Selection }) {
  return (
    <div class="fleet-row fleet-head" role="row" aria-rowindex={1}>
      <div role="columnheader">
        <input
          type="checkbox"
          aria-label="Choose all that match"
          checked={selection.all}
          onChange={() => (selection.all ? selection.clear() : selection.takeAll())}
        />
      </div>
      {COLUMNS.map(({ name, sort, number }) => (
        <div
          key={name}
          role="columnheader"
          class={number ? "number" : undefined}
          aria-sort={sort && asked.sort === sort ? direction(asked) : undefined}
        >
          {sort ? <SortButton name={name} sort={sort} asked={asked} /> : name}
        </div>
      ))}
    </div>
  );
}

/** Of these the service lists the largest first. */
const FALLING: readonly Sort[] = ["newest", "temperature", "memory", "agent", "seen"];

function direction({ sort, reverse }: Asked): "ascending" | "descending" {
  return FALLING.includes(sort) === reverse ? "ascending" : "descending";
}

function SortButton({ name, sort, asked }: { readonly name: string; readonly sort: Sort; readonly asked: Asked }) {
  const mine = asked.sort === sort;
  const choose = () => setQuery({ sort, reverse: mine && !asked.reverse ? "1" : null });
  return (
    <button type="button" class="fleet-sort" onClick={choose}>
      {name}
      <span aria-hidden="true">{mine ? (direction(asked) === "ascending" ? " ↑" : " ↓") : ""}</span>
    </button>
  );
}

interface RowProps {
  readonly index: number;
  readonly top: number;
  /** Not there yet: the row keeps its place. */
  readonly device: Device | undefined;
  readonly active: boolean;
  readonly chosen: boolean;
  /** All that match are chosen, so that none is chosen alone. */
  readonly fixed: boolean;
  readonly onActive: (index: number) => void;
  readonly onToggle: (device: Device) => void;
}

const Row = memo(function Row({ index, top, device, active, chosen, fixed, onActive, onToggle }: RowProps) {
  const marked = chosen || (fixed && device !== undefined);
  return (
    <div
      id={rowId(index)}
      class={`fleet-row${active ? " fleet-active" : ""}${marked ? " fleet-chosen" : ""}`}
      role="row"
      aria-rowindex={index + 2}
      aria-selected={marked}
      style={{ transform: `translateY(${top}px)` }}
      onClick={() => onActive(index)}
    >
      <div role="gridcell">
        {device && (
          <input
            type="checkbox"
            tabIndex={-1}
            aria-label={`Choose ${device.name}`}
            checked={marked}
            disabled={fixed}
            onChange={() => onToggle(device)}
          />
        )}
      </div>
      {COLUMNS.map(({ name, number, cell }) => (
        <div key={name} role="gridcell" class={number ? "number" : undefined}>
          {device ? cell(device) : <span class="fleet-skeleton" />}
        </div>
      ))}
    </div>
  );
});
