/** What was measured so far: a row for each build, over its devices and seeds, or for each build and device. */

import { BASE } from "../../api/client";
import type { Campaign, CampaignCell, CampaignResult, CampaignResults } from "../../api/types";
import { Empty, Loaded, Section, TableFrame } from "../../components/page";
import { curl } from "../../commands";
import type { Resource } from "../../data";
import * as format from "../../format";
import { link, setQuery } from "../../router";
import { comparable, FIGURE_NAMES, FIGURES, spreadText } from "./grid";
import { shortVersion } from "./parts";

interface ResultsProps {
  readonly campaign: Campaign;
  readonly path: string;
  readonly cells: readonly CampaignCell[];
  readonly by: CampaignResults["by"];
  readonly results: Resource<CampaignResults>;
}

export function ResultsSection({ campaign, path, cells, by, results }: ResultsProps) {
  const listed = `${path}/results?by=${by}`;
  const file = `${campaign.name}-results`;
  return (
    <Section
      title="Results"
      note="Medians over the runs that succeeded; ± says how far the 10th or 90th percentile is from it, of accuracies in points."
      command={curl(listed)}
    >
      <div class="grid-tools">
        <label class="field field-short">
          <span>A row for each</span>
          <select
            value={by}
            onChange={(event) => setQuery({ by: event.currentTarget.value === "device" ? "device" : null })}
          >
            <option value="target">build</option>
            <option value="device">build and device</option>
          </select>
        </label>
        <div class="actions">
          <CompareLink cells={cells} of="all builds" />
          <a class="button" href={`${BASE}${listed}&format=csv`} download={`${file}.csv`}>
            Download CSV
          </a>
          <a class="button" href={`${BASE}${listed}`} download={`${file}.json`}>
            Download JSON
          </a>
        </div>
      </div>
      <Loaded of={results} what="results">
        {({ rows }) =>
          rows.length === 0 ? <Empty title="Nothing was measured." /> : <ResultsTable rows={rows} cells={cells} />
        }
      </Loaded>
    </Section>
  );
}

function ResultsTable({
  rows,
  cells,
}: {
  readonly rows: readonly CampaignResult[];
  readonly cells: readonly CampaignCell[];
}) {
  const byDevice = rows.some(({ device_id: id }) => id !== null);
  const figures = FIGURE_NAMES.filter((name) => rows.some((row) => row[name] !== null));
  return (
    <TableFrame label="Results">
      <table>
        <thead>
          <tr>
            <th scope="col">Build</th>
            {byDevice ? <th scope="col">Device</th> : <th scope="col">Target</th>}
            <th scope="col" class="number">
              Succeeded
            </th>
            <th scope="col">Failed</th>
            {figures.map((name) => (
              <th key={name} scope="col" class="number">
                {FIGURES[name].name}
              </th>
            ))}
            <th scope="col">
              <span class="visually-hidden">Compare</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={`${row.build_id} ${row.device_id ?? row.target}`}>
              <td class="wrap results-build">
                <a href={link.build(row.build_id)}>{shortVersion(row.recipe ?? row.build)}</a>
                {row.recipe !== null && <span class="under">{row.build}</span>}
              </td>
              <td class="wrap">
                {row.device_id === null ? row.target : <a href={link.device(row.device_id)}>{row.device_name}</a>}
              </td>
              <td class="number">
                {format.count(row.cells.succeeded)} of {format.count(row.cells.total)}
              </td>
              <td>{failuresText(row)}</td>
              {figures.map((name) => (
                <td key={name} class="number">
                  {spreadText(name, row[name])}
                </td>
              ))}
              <td class="row-action">
                <CompareLink
                  cells={cells.filter((cell) => isOf(cell, row))}
                  of={`${row.build} on ${row.device_name ?? row.target}`}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function isOf(cell: CampaignCell, row: CampaignResult): boolean {
  return cell.build_id === row.build_id && (row.device_id === null || cell.device_id === row.device_id);
}

/** "2: transient 1, out of memory 1". */
function failuresText({ cells, failures }: CampaignResult): string {
  if (cells.failed === 0) return format.NOTHING;
  const kinds = Object.entries(failures).map(([kind, count]) => `${kind.replaceAll("_", " ")} ${count}`);
  return `${format.count(cells.failed)}: ${kinds.join(", ")}`;
}

/** To the comparison of the runs that succeeded; of more than are compared at once, the first. */
function CompareLink({ cells, of }: { readonly cells: readonly CampaignCell[]; readonly of: string }) {
  const runs = comparable(cells);
  if (runs.length < 2) return null;
  const all = cells.filter(({ state }) => state === "succeeded").length;
  const count = all > runs.length ? `${runs.length} of ${format.count(all)}` : String(runs.length);
  return (
    <a class="button compare-runs" href={link.compare(runs)} aria-label={`Compare ${count} runs of ${of}`}>
      Compare {count} runs
    </a>
  );
}
