/** Measured time per operator of a profiled run, as bars, each with the least time that it could take. */

import "../../styles/run.css";
import type { KernelTime } from "../../api/types";
import { TableFrame } from "../../components/page";
import { saveText } from "../../download";
import * as format from "../../format";
import { address, setQuery, useKept } from "../../router";
import { type Order, type Part, partsOf, type Placed, type Roofline, rooflineOf } from "./roofline";
import { traceOf } from "./trace";

/** Of one phase. */
const MOST = 12;
const COLUMNS = 7;
const WIDTH = 160;
const A_SECOND = 1000;

interface Props {
  readonly kernels: readonly KernelTime[];
  /** What the run is called. */
  readonly run: string;
}

export function Kernels({ kernels, run }: Props) {
  const roofline = rooflineOf(kernels);
  const by: Order = address.value?.query.get("kernels") === "lost" ? "lost" : "time";
  const parts = partsOf(roofline, by);
  const largest = roofline.kernels.reduce((most, { ms }) => Math.max(most, ms), 0) || 1;
  return (
    <>
      <Ceilings of={roofline} />
      <div class="chart-choices">
        <label class="check">
          Order
          <select
            value={by}
            onChange={(event) => setQuery({ kernels: event.currentTarget.value === "lost" ? "lost" : null })}
          >
            <option value="time">by time</option>
            <option value="lost">by time beyond the least</option>
          </select>
        </label>
      </div>
      <TableFrame label="Time per operator">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Kernel</th>
              <th scope="col" class="number">
                Time
              </th>
              <th scope="col" class="number">
                Least
              </th>
              <th scope="col">Limited by</th>
              <th scope="col" class="number">
                Operations
              </th>
              <th scope="col">Share of all, and the least</th>
            </tr>
          </thead>
          {parts.map((part) => (
            <PartRows key={part.phase} part={part} largest={largest} total={roofline.totalMs} />
          ))}
        </table>
      </TableFrame>
      <p>
        <button
          type="button"
          class="button"
          onClick={() => saveText("trace.json", "application/json", traceOf(run, kernels))}
        >
          Download the trace
        </button>{" "}
        <span class="faint">One step, for ui.perfetto.dev or chrome://tracing.</span>
      </p>
    </>
  );
}

interface PartRowsProps {
  readonly part: Part;
  readonly largest: number;
  readonly total: number;
}

/** A phase with its sum, which folds; kernels alone where the phase of none is known. */
function PartRows({ part: { phase, kernels, ms }, largest, total }: PartRowsProps) {
  const [open, setOpen] = useKept(`kernels ${phase}`, true);
  const name = phase ?? "unknown phase";
  const isAll = phase === null && ms === total;
  return (
    <tbody>
      {!isAll && (
        <tr class="part-sum">
          <th scope="rowgroup" colSpan={COLUMNS}>
            <button type="button" class="fold" aria-expanded={open} onClick={() => setOpen(!open)}>
              {name}
            </button>{" "}
            {format.milliseconds(ms)} · {format.percent(total === 0 ? null : ms / total)}{" "}
            <span class="faint">
              · {kernels.length} {kernels.length === 1 ? "kernel" : "kernels"}
            </span>
          </th>
        </tr>
      )}
      {(open || isAll) &&
        kernels
          .slice(0, MOST)
          .map((placed, index) => <Row key={index} placed={placed} largest={largest} total={total} />)}
      {(open || isAll) && kernels.length > MOST && (
        <tr>
          <td colSpan={COLUMNS} class="faint">
            {MOST} of {kernels.length} kernels.
          </td>
        </tr>
      )}
    </tbody>
  );
}

function Ceilings({ of }: { readonly of: Roofline }) {
  const { flops, bytes, lostMs, totalMs } = of;
  const rates = [
    flops !== null && `${format.count(flops * A_SECOND)} operations a second`,
    bytes !== null && `${format.bytes(bytes * A_SECOND)} a second`,
  ].filter(Boolean);
  if (rates.length === 0) return null;
  return (
    <p class="note">
      The least is what a kernel's operations, or its bytes, take at the highest rates that kernels of this run reached:{" "}
      {rates.join(" and ")}. The device's own limits are not known and may be higher. {format.milliseconds(lostMs)} of{" "}
      {format.milliseconds(totalMs)} are beyond it.
    </p>
  );
}

interface RowProps {
  readonly placed: Placed;
  readonly largest: number;
  readonly total: number;
}

function Row({ placed: { kernel, ms, leastMs, bound }, largest, total }: RowProps) {
  const at = leastMs === null ? null : Math.max(1, (leastMs / largest) * WIDTH);
  return (
    <tr>
      <td class="mono">{kernel.name}</td>
      <td class="mono">{kernel.kernel}</td>
      <td class="number">{format.milliseconds(ms)}</td>
      <td class="number">{format.milliseconds(leastMs)}</td>
      <td>{bound ?? format.NOTHING}</td>
      <td class="number">{format.count(kernel.flops)}</td>
      <td>
        <span class="share">
          <svg width={WIDTH} height="10" aria-hidden="true">
            <rect class="bar-measured" width={(ms / largest) * WIDTH} height="10" rx="2" />
            {at !== null && <line class="bar-least" x1={at} x2={at} y1="0" y2="10" />}
          </svg>
          {format.percent(total === 0 ? null : ms / total)}
        </span>
      </td>
    </tr>
  );
}
