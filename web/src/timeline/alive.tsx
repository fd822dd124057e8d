/** What is alive at one node, as a table. */

import { useState } from "preact/hooks";
import type { Slot } from "../api/types";
import { TableFrame } from "../components/page";
import { Path } from "../components/path";
import * as format from "../format";
import { aliveAt, makerOf, nameOf, type Plan } from "./layout";
import { kindClass } from "./slot";

const ROWS = 12;

interface AliveProps {
  readonly program: Plan;
  readonly node: number;
  readonly peak: number;
  readonly total: number;
  readonly onHover: (slot: Slot | null) => void;
  readonly onSelect: (slot: Slot | null) => void;
}

/** The largest values that are alive at a node, and on demand all. */
export function Alive({ program, node, peak, total, onHover, onSelect }: AliveProps) {
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
                <td class="mono wrap">
                  <button type="button" class="value-name" onClick={() => onSelect(slot)}>
                    <Path of={nameOf(slot, program)} />
                  </button>
                </td>
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
