/** Loss, step time and temperature of a run, on axes of one's choice. */

import { useMemo } from "preact/hooks";
import type { Run, Step } from "../../api/types";
import { Chart } from "../../components/chart";
import { Later } from "../../components/later";
import { Empty, Section } from "../../components/page";
import { curl, curlEvents } from "../../commands";
import * as format from "../../format";
import { type Bin, histogram, quantile, smoothed, times } from "../../series";
import { CurveChoices, curveChoices } from "./curve_choices";
import { alongSteps, feltDuring, throttledFrom } from "./health";

interface CurvesProps {
  readonly run: Run;
  readonly steps: readonly Step[];
  readonly ended: boolean;
  readonly path: string;
}

/** Times above this quantile are drawn at the edge: one pause of the device would flatten all others. */
const CLIPPED = 0.99;
const BINS = 40;

export function Curves({ run, steps, ended, path }: CurvesProps) {
  const { log, weight } = curveChoices();
  const x = useMemo(() => steps.map((step) => step.step), [steps]);
  const lossLines = useMemo(() => {
    const losses = steps.map((step) => step.loss);
    const faint = { label: "Loss of the step", values: losses, color: "series-1" };
    if (weight === 0) return [{ ...faint, style: "line" as const }];
    const line = { label: "Smoothed", values: smoothed(losses, weight), color: "series-1", style: "line" as const };
    return [{ ...faint, style: "faint" as const }, line];
  }, [steps, weight]);
  const timeLines = useMemo(
    () => [{ label: "Step time", values: steps.map((step) => step.ms), color: "series-2", style: "points" as const }],
    [steps],
  );
  const measured = useMemo(() => times(steps), [steps]);
  const command = ended ? curl(`${path}/steps`) : curlEvents(`${path}/events`);
  if (steps.length === 0)
    return (
      <Section title="Loss" command={command}>
        <Empty title={ended ? "The run ended before its first step." : "No step has been reported yet."} />
      </Section>
    );
  const clip = quantile(measured, CLIPPED);
  const above = clip === null ? 0 : measured.filter((ms) => ms > clip).length;
  return (
    <>
      <Section title="Loss" command={command}>
        <CurveChoices />
        <Chart
          description={
            `Loss over ${steps.length} steps: ${format.loss(steps[0]?.loss)} at step ${steps[0]?.step}, ` +
            `${format.loss(steps.at(-1)?.loss)} at step ${steps.at(-1)?.step}. Drag to zoom, double-click for all.`
          }
          x={x}
          xLabel="Step"
          lines={lossLines}
          format={format.loss}
          log={log}
        />
        <Evaluations run={run} />
      </Section>
      <Later>
        <Section title="Step time" command={command}>
          <Chart
            description={
              `${measured.length} samples: median ${format.milliseconds(quantile(measured, 0.5))}, ` +
              `10th percentile ${format.milliseconds(quantile(measured, 0.1))}, ` +
              `90th percentile ${format.milliseconds(quantile(measured, 0.9))}.` +
              (above > 0 ? ` ${above} above ${format.milliseconds(clip)} are drawn at the edge.` : "")
            }
            x={x}
            xLabel="Step"
            lines={timeLines}
            format={format.milliseconds}
            unit=" ms"
            fromZero
            most={clip}
          />
          {clip !== null && <Histogram bins={histogram(measured, BINS, clip)} />}
        </Section>
      </Later>
      <Later>
        <Heat run={run} x={x} path={path} />
      </Later>
    </>
  );
}

interface HeatProps {
  readonly run: Run;
  readonly x: readonly number[];
  readonly path: string;
}

/** The device's temperature on the axis of the steps, marked where it slowed itself down. */
function Heat({ run, x, path }: HeatProps) {
  const felt = useMemo(() => feltDuring(run.report?.health), [run]);
  const lines = useMemo(
    () => [
      { label: "Temperature", values: alongSteps(felt, x, false), color: "series-1", style: "line" as const },
      { label: "Throttled", values: alongSteps(felt, x, true), color: "bad", style: "points" as const },
    ],
    [felt, x],
  );
  const known = felt.flatMap(({ celsius }) => celsius ?? []);
  if (known.length === 0) return null;
  const from = throttledFrom(felt);
  const hottest = format.celsius(known.reduce((most, one) => Math.max(most, one)));
  return (
    <Section title="Temperature" command={curl(path, ".report.health.samples")}>
      <Chart
        description={
          `${known.length} readings, up to ${hottest}. ` +
          (from === null ? "It did not throttle." : `Throttled from step ${from}.`)
        }
        x={x}
        xLabel="Step"
        lines={lines}
        format={format.celsius}
        unit=" °C"
      />
    </Section>
  );
}

const WIDTH = 600;
const HEIGHT = 70;

function Histogram({ bins }: { readonly bins: readonly Bin[] }) {
  const most = Math.max(1, ...bins.map(({ count }) => count));
  const wide = WIDTH / Math.max(1, bins.length);
  const [first, last] = [bins[0], bins.at(-1)];
  if (!first || !last) return null;
  const label = `Histogram of the step times from ${format.milliseconds(first.from)} to ${format.milliseconds(last.to)}`;
  return (
    <figure class="histogram">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
        {bins.map(({ from, count }, index) => (
          <rect
            key={from}
            class="histogram-bar"
            x={index * wide}
            width={wide * 0.9}
            y={HEIGHT - (count / most) * HEIGHT}
            height={(count / most) * HEIGHT}
          />
        ))}
      </svg>
      <figcaption>
        <span>{format.milliseconds(first.from)}</span> <span>how often a step took so long</span>{" "}
        <span>{format.milliseconds(last.to)} and more</span>
      </figcaption>
    </figure>
  );
}

/** What was evaluated during training, where a share of the data was held out. */
function Evaluations({ run }: { readonly run: Run }) {
  const found = run.report?.train?.evaluations ?? [];
  const rows = found.filter(({ accuracy }) => typeof accuracy === "number");
  if (rows.length < 2) return null;
  return (
    <Chart
      description={`Accuracy of the held-out share in ${rows.length} evaluations during training.`}
      x={rows.map(({ step }) => step ?? 0)}
      xLabel="Step"
      lines={[
        { label: "Accuracy", values: rows.map(({ accuracy }) => (accuracy ?? 0) * 100), color: "good", style: "line" },
      ]}
      format={(value) => format.percent(value / 100)}
      unit=" %"
    />
  );
}
