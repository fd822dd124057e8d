/** Measured time per operator of a profiled run, as bars. */

import type { KernelTime } from "../../api/types";
import { TableFrame } from "../../components/page";
import * as format from "../../format";

const MOST = 20;
const WIDTH = 160;

export function Kernels({ kernels }: { readonly kernels: readonly KernelTime[] }) {
  const timed = kernels.map((kernel) => ({ ...kernel, ms: kernel.ms ?? 0 }));
  const ranked = timed.sort((a, b) => b.ms - a.ms).slice(0, MOST);
  const total = timed.reduce((sum, kernel) => sum + kernel.ms, 0);
  const largest = ranked[0]?.ms || 1;
  return (
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
              Operations
            </th>
            <th scope="col">Share</th>
          </tr>
        </thead>
        <tbody>
          {ranked.map((kernel, index) => (
            <tr key={index}>
              <td class="mono">{kernel.name}</td>
              <td class="mono">{kernel.kernel}</td>
              <td class="number">{format.milliseconds(kernel.ms)}</td>
              <td class="number">{format.count(kernel.flops)}</td>
              <td>
                <span class="share">
                  <svg width={WIDTH} height="10" aria-hidden="true">
                    <rect class="bar-measured" width={(kernel.ms / largest) * WIDTH} height="10" rx="2" />
                  </svg>
                  {format.percent(total === 0 ? null : kernel.ms / total)}
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
