/** Planned memory next to what devices measured, as bars on one scale. */

import type { Run } from "../api/types";
import { CopyButton } from "../components/copy";
import { TableFrame } from "../components/page";
import { curl } from "../commands";
import * as format from "../format";
import { link } from "../router";

interface MemoryProps {
  readonly runs: readonly Run[];
  /** The plan's predicted peak in bytes; a run's own report takes precedence. */
  readonly planned: number | null;
}

const WIDTH = 200;

export function PlannedAgainstMeasured({ runs, planned }: MemoryProps) {
  const rows = runs.map((run) => ({
    run,
    planned: run.report?.train?.predicted_peak_bytes ?? planned,
    measured: run.report?.train?.peak_rss_bytes ?? 0,
  }));
  const most = Math.max(1, ...rows.flatMap((row) => [row.planned ?? 0, row.measured]));
  return (
    <TableFrame label="Planned against measured memory">
      <table>
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col" class="number">
              Planned peak
            </th>
            <th scope="col" class="number">
              Measured peak
            </th>
            <th scope="col" class="number">
              Difference
            </th>
            <th scope="col">Planned (grey), measured (blue)</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.run.id}>
              <td>
                <a href={link.run(row.run.id)}>{row.run.device_name}</a>{" "}
                <span class="faint mono">{format.shortId(row.run.id)}</span>
              </td>
              <td class="number">{format.bytes(row.planned)}</td>
              <td class="number">
                {format.bytes(row.measured)}{" "}
                <CopyButton
                  text={curl(`/runs/${row.run.id}`, ".report.train.peak_rss_bytes")}
                  of={`measured peak on ${row.run.device_name}`}
                />
              </td>
              <td class="number">{row.planned ? format.deviation(row.measured, row.planned) : format.NOTHING}</td>
              <td>
                <svg width={WIDTH} height="22" aria-hidden="true" class="bars">
                  <rect class="bar-planned" width={((row.planned ?? 0) / most) * WIDTH} height="9" rx="2" />
                  <rect class="bar-measured" y="12" width={(row.measured / most) * WIDTH} height="9" rx="2" />
                </svg>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
