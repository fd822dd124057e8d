/** What a benchmark's run measured: the verdict, and each repeat with how the device was meanwhile. */

import { useEffect, useState } from "preact/hooks";
import { type Benchmark, type Run, RUN_ENDED } from "../../api/types";
import { curl } from "../../commands";
import { Figures } from "../../components/figures";
import { Empty, Loaded, Section, TableFrame } from "../../components/page";
import { useResource } from "../../data";
import * as format from "../../format";
import { intervalText, trustText } from "../verdicts";

const SOON_MS = 3000;

export function Measured({ run, ended }: { readonly run: Run; readonly ended: boolean }) {
  const work = run.longer_work;
  const id = work?.kind === "benchmark" ? work.id : null;
  const path = `/benchmarks/${id}`;
  // The verdict follows the end of the run by a moment.
  const [over, setOver] = useState(false);
  const benchmark = useResource<Benchmark>(id === null ? null : path, over ? 0 : SOON_MS);
  const { state } = benchmark.data ?? {};
  useEffect(() => setOver(state !== undefined && RUN_ENDED.includes(state)), [state]);
  if (id === null)
    return (
      <Section title="What it measured">
        <Empty title="The benchmark that this run belonged to was deleted." />
      </Section>
    );
  return (
    <Section title="What it measured" command={curl(path)}>
      <Loaded of={benchmark} what="the benchmark">
        {(known) =>
          known.verdict ? <Verdict benchmark={known} path={path} /> : <Empty title={nothingYet(known, ended)} />
        }
      </Loaded>
    </Section>
  );
}

function nothingYet({ failure, state }: Benchmark, ended: boolean): string {
  if (failure) return failure.detail;
  if (state === "cancelled") return "It was cancelled before it had measured anything that counts.";
  return ended ? "The service judges what was measured …" : "It is told when all repeats are over.";
}

interface VerdictProps {
  readonly benchmark: Benchmark;
  readonly path: string;
}

function equals(probability: number): string {
  const text = format.probability(probability);
  return text.startsWith("<") ? text : `= ${text}`;
}

function Verdict({ benchmark, path }: VerdictProps) {
  const { verdict, repeats, steps, warmup_steps: warmup, comparison } = benchmark;
  const figures = [
    {
      label: "Step median",
      value: format.milliseconds(verdict?.median_ms),
      hint: `95 % within ${intervalText(benchmark)}`,
      command: curl(path, ".verdict.median_ms"),
    },
    { label: "Trust", value: trustText(benchmark), command: curl(path, ".verdict.reasons") },
    {
      label: "Repeats",
      value: `${format.count(repeats?.length)} of ${format.count(steps)} steps`,
      hint: `after ${format.count(warmup)} that do not count`,
    },
  ];
  const ratio = comparison && {
    label: "Beside its baseline",
    value: `${format.ratio(comparison.ratio)} times as long`,
    hint: `p ${equals(comparison.p_value)}${comparison.same_machine ? "" : ", on another machine"}`,
    command: curl(path, ".comparison"),
  };
  return (
    <>
      <Figures items={ratio ? [...figures, ratio] : figures} />
      {repeats && <Repeats items={repeats} />}
    </>
  );
}

const HEADS = ["Repeat", "Median", "10th percentile", "90th percentile", "Temperature", "Frequency", "Throttled"];

function Repeats({ items }: { readonly items: NonNullable<Benchmark["repeats"]> }) {
  return (
    <TableFrame label="Repeats of the benchmark">
      <table>
        <thead>
          <tr>
            {HEADS.map((head) => (
              <th key={head} scope="col" class="number">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((one, index) => (
            <tr key={index}>
              <td class="number">{index + 1}</td>
              <td class="number">{format.milliseconds(one.median_ms)}</td>
              <td class="number">{format.milliseconds(one.p10_ms)}</td>
              <td class="number">{format.milliseconds(one.p90_ms)}</td>
              <td class="number">
                {degrees(one.temperature_before_c)} → {degrees(one.temperature_after_c)}
              </td>
              <td class="number">
                {one.frequency_mhz === null ? format.NOTHING : `${format.count(one.frequency_mhz)}\u00a0MHz`}
              </td>
              <td class="number">{one.throttled === null ? format.NOTHING : one.throttled ? "yes" : "no"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

const degrees = (told: number | null) => (told === null ? format.NOTHING : format.celsius(told));
