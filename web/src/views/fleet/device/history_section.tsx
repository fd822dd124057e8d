/** What a device's latest runs and benchmarks measured: charts over one time axis, a reading at a time, and a table. */

import { useMemo } from "preact/hooks";
import type { Benchmark, Run } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago } from "../../../components/ago";
import { Chart, type Line } from "../../../components/chart";
import { Section, TableFrame } from "../../../components/page";
import * as format from "../../../format";
import { link, useKept } from "../../../router";
import { type Reading, readings, sentence } from "./history";

interface HistoryProps {
  readonly id: string;
  readonly runs: readonly Run[];
  /** Null where they could not be fetched. */
  readonly benchmarks: readonly Benchmark[] | null;
}

export function History({ id, runs, benchmarks }: HistoryProps) {
  const found = useMemo(() => readings(runs, benchmarks ?? []), [runs, benchmarks]);
  if (found.length === 0) return null;
  return (
    <Section
      title="What it measured"
      note="In its latest runs. Times and memory of different models differ, too."
      command={curl(`/runs?device_id=${id}`, ".items[] | {created_at, train: .report.train, health: .report.health}")}
    >
      <Charts found={found} />
      <OneByOne found={found} />
      <AsTable found={found} />
    </Section>
  );
}

function points(found: readonly Reading[], label: string, color: string, of: (one: Reading) => number | null): Line {
  return { label, values: found.map(of), color, style: "points" };
}

function Charts({ found }: { readonly found: readonly Reading[] }) {
  const x = useMemo(() => found.map((one) => Date.parse(one.createdAt) / 1000), [found]);
  const times = useMemo(
    () =>
      telling([
        points(found, "Step, median", "series-1", (one) => one.stepMs),
        points(found, "Benchmark, median", "series-2", (one) => one.benchmarkMs),
      ]),
    [found],
  );
  const memory = useMemo(
    () =>
      telling([
        points(found, "Peak, measured", "series-1", (one) => one.peakBytes && one.peakBytes / 2 ** 20),
        points(found, "Peak, planned", "series-2", (one) => one.plannedBytes && one.plannedBytes / 2 ** 20),
      ]),
    [found],
  );
  const heat = useMemo(
    () =>
      telling([
        points(found, "Highest temperature", "series-1", (one) => one.hottest),
        points(found, "where it throttled", "bad", (one) => (one.throttled ? one.hottest : null)),
      ]),
    [found],
  );
  const common = { x, xLabel: "Time", time: true } as const;
  return (
    <>
      {times.length > 0 && (
        <Chart
          {...common}
          description="Median step time of each run and benchmark."
          lines={times}
          format={format.milliseconds}
          unit=" ms"
          fromZero
        />
      )}
      {memory.length > 0 && (
        <Chart
          {...common}
          description="Peak memory of each run, beside its plan."
          lines={memory}
          format={mebibytes}
          unit=" MiB"
          fromZero
        />
      )}
      {heat.length > 0 && (
        <Chart
          {...common}
          description="Highest temperature in each run."
          lines={heat}
          format={format.celsius}
          unit=" °C"
        />
      )}
    </>
  );
}

function mebibytes(value: number): string {
  return format.bytes(value * 2 ** 20);
}

/** Those that have a point to draw. */
function telling(lines: readonly Line[]): Line[] {
  return lines.filter((line) => line.values.some((value) => typeof value === "number"));
}

/** The points by keyboard: arrows go from one to the next, and what it measured is read out. */
function OneByOne({ found }: { readonly found: readonly Reading[] }) {
  const [chosen, setChosen] = useKept<string | null>("device history", null);
  const index = found.findIndex((one) => one.runId === chosen);
  const at = index < 0 ? found.length - 1 : index;
  const one = found[at];
  if (!one) return null;
  return (
    <div class="device-reading">
      <input
        type="range"
        aria-label="One run after another"
        aria-valuetext={`${one.name}, ${format.timestamp(one.createdAt)}: ${sentence(one)}`}
        min={0}
        max={found.length - 1}
        value={at}
        disabled={found.length === 1}
        onInput={(event) => setChosen(found[Number(event.currentTarget.value)]?.runId ?? null)}
      />
      <p>
        {at + 1} of {found.length}: <a href={link.run(one.runId)}>{one.name}</a> <Ago time={one.createdAt} />:{" "}
        {sentence(one)}
      </p>
    </div>
  );
}

function AsTable({ found }: { readonly found: readonly Reading[] }) {
  const [shown, setShown] = useKept("device history table", false);
  const throttled = found.filter((one) => one.throttled).length;
  return (
    <>
      <p class="note">{throttled === 0 ? "It throttled in none of them." : `It throttled in ${throttled} of them.`}</p>
      <details open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
        <summary>The same as a table</summary>
        {shown && (
          <TableFrame label="What it measured, run by run">
            <table>
              <thead>
                <tr>
                  <th scope="col">Run</th>
                  <th scope="col">Created</th>
                  {["Step median", "Benchmark", "Peak", "Planned", "Hottest"].map((name) => (
                    <th scope="col" class="number" key={name}>
                      {name}
                    </th>
                  ))}
                  <th scope="col">Throttled</th>
                </tr>
              </thead>
              <tbody>
                {[...found].reverse().map((one) => (
                  <tr key={one.runId}>
                    <td>
                      <a href={link.run(one.runId)}>{one.name}</a>
                    </td>
                    <td>
                      <Ago time={one.createdAt} />
                    </td>
                    <td class="number">{format.milliseconds(one.stepMs)}</td>
                    <td class="number">{format.milliseconds(one.benchmarkMs)}</td>
                    <td class="number">{format.bytes(one.peakBytes)}</td>
                    <td class="number">{format.bytes(one.plannedBytes)}</td>
                    <td class="number">{one.hottest === null ? format.NOTHING : format.celsius(one.hottest)}</td>
                    <td>{one.throttled ? "yes" : "no"}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </TableFrame>
        )}
      </details>
    </>
  );
}
