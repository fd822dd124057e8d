/** The predicted peak as the sum of its parts. */

import type { Summary } from "../api/types";
import { TableFrame } from "../components/page";
import * as format from "../format";
import { PARTS } from "../scheme/estimate";
import { partsOf } from "./parts";
import "../styles/scheme.css";

const WHY: Readonly<Record<(typeof PARTS)[number]["key"], string>> = {
  param_bytes: "all weights of the model, trained or frozen",
  state_bytes: "what the optimizer remembers of the trained parameters",
  const_bytes: "numbers that the compiler folded",
  input_bytes: "one batch",
  arena_bytes: "one block that all values of a step share; the timeline shows their places",
  runtime_bytes: "code, tables, stacks, buffers: an estimate from the model",
};

const WIDTH = 1000;

export function PeakTable({ summary, peak }: { readonly summary: Summary; readonly peak: number }) {
  const parts = partsOf(summary, peak);
  let at = 0;
  const bars = parts.map(({ key, bytes }) => {
    const width = (Math.max(0, bytes) / Math.max(1, peak)) * WIDTH;
    at += width;
    return { key, x: at - width, width };
  });
  return (
    <div class="memory-bar">
      <svg viewBox={`0 0 ${WIDTH} 40`} preserveAspectRatio="none" aria-hidden="true">
        {bars.map(({ key, x, width }) => (
          <rect key={key} class={`part-${key}`} x={x} width={width} height="40" />
        ))}
      </svg>
      <TableFrame label="Parts of the predicted peak">
        <table>
          <thead>
            <tr>
              <th scope="col">Part</th>
              <th scope="col" class="number">
                Bytes
              </th>
              <th scope="col" class="number">
                Size
              </th>
              <th scope="col" class="number">
                Share
              </th>
              <th scope="col">What it is</th>
            </tr>
          </thead>
          <tbody>
            {parts.map(({ key, name, bytes }) => (
              <tr key={key}>
                <td class="nowrap">
                  <span class={`swatch part-${key}`} aria-hidden="true" /> {name}
                </td>
                <td class="number">{format.grouped(bytes)}</td>
                <td class="number">{format.bytes(bytes)}</td>
                <td class="number">{format.percent(bytes / peak)}</td>
                <td>{WHY[key]}</td>
              </tr>
            ))}
          </tbody>
          <tfoot>
            <tr>
              <th scope="row">Predicted peak</th>
              <td class="number">{format.grouped(peak)}</td>
              <td class="number">{format.bytes(peak)}</td>
              <td class="number">{format.percent(1)}</td>
              <td />
            </tr>
          </tfoot>
        </table>
      </TableFrame>
    </div>
  );
}
