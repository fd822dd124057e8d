/** How far a run is, and its figures. */

import { type Report, type Run, RUN_ENDED, type Step } from "../../api/types";
import { Progress } from "../../components/badge";
import { type Figure, Figures } from "../../components/figures";
import { Section } from "../../components/page";
import { curl } from "../../commands";
import * as format from "../../format";
import { useNow } from "../../hooks";
import { versionText } from "../../names";
import { link } from "../../router";
import { quantile, times } from "../../series";

export function Overview(props: { readonly run: Run; readonly steps: readonly Step[]; readonly path: string }) {
  const { run, steps, path } = props;
  const now = useNow();
  const done = steps.at(-1)?.step ?? run.progress?.step ?? 0;
  return (
    <Section title="Overview">
      {run.state === "running" && (
        <Progress
          label="Progress of the run"
          fraction={done / Math.max(1, run.steps)}
          text={`step ${done} of ${run.steps}${remaining(run, steps, done)}`}
        />
      )}
      {run.state === "queued" && (
        <p class="note">
          Waiting for the device{run.queue_position !== null && `, position ${run.queue_position} in its queue`}.
        </p>
      )}
      <Figures items={[...resultFigures(run, steps, path), ...placeFigures(run, path, now)]} />
    </Section>
  );
}

/** How long the steps that are left take at the pace of the latest ones; empty while that is not known. */
function remaining(run: Run, steps: readonly Step[], done: number): string {
  const pace = quantile(times(steps.slice(-100)), 0.5);
  return pace === null || done >= run.steps ? "" : `, about ${format.milliseconds(pace * (run.steps - done))} left`;
}

/** Loss, accuracy and times: from the report when there is one, from the steps so far until then. */
function resultFigures(run: Run, steps: readonly Step[], path: string): Figure[] {
  const ended = RUN_ENDED.includes(run.state);
  const train = run.report?.train;
  const measured = times(steps);
  const median = train?.step_ms?.median ?? quantile(measured, 0.5);
  const p90 = train?.step_ms?.p90 ?? quantile(measured, 0.9);
  const before = run.report?.eval_before;
  const after = run.report?.eval_after;
  const figures: Figure[] =
    run.entry === "train"
      ? [
          {
            label: "Loss, first → last",
            value: `${format.loss(steps[0]?.loss)} → ${format.loss(steps.at(-1)?.loss)}`,
            command: curl(`${path}/steps`, "[.items[0].loss, .items[-1].loss]"),
          },
          {
            label: "Step time, median",
            value: format.milliseconds(median),
            hint: train?.step_ms ? stability(train) : ended ? undefined : "so far",
            command: curl(path, ".report.train.step_ms.median"),
          },
          {
            label: "Step time, p90",
            value: format.milliseconds(p90),
            command: curl(path, ".report.train.step_ms.p90"),
          },
        ]
      : [];
  if (before ?? after)
    figures.unshift({
      label: "Accuracy, before → after",
      value: `${format.percent(before?.accuracy)} → ${format.percent(after?.accuracy)}`,
      hint: `on ${format.count((after ?? before)?.samples)} held-out samples`,
      command: curl(path, "[.report.eval_before.accuracy, .report.eval_after.accuracy]"),
    });
  const batch = rate(run, median);
  if (batch !== null)
    figures.push({ label: "Samples a second", value: format.count(batch), hint: "by the median step" });
  const joules = train?.energy?.joules_per_step;
  if (typeof joules === "number")
    figures.push({
      label: "Energy a step",
      value: `${format.count(joules)}\u00a0J`,
      hint: train?.energy?.covers ? `of the ${train.energy.covers}` : undefined,
      command: curl(path, ".report.train.energy"),
    });
  if (typeof train?.cold_start_ms === "number")
    figures.push({
      label: "Cold start",
      value: format.milliseconds(train.cold_start_ms),
      hint: "to the end of the first step",
      command: curl(path, ".report.train.cold_start_ms"),
    });
  return figures;
}

/** What the agent found about the step times: their confidence interval, and whether it is narrow enough to compare. */
function stability(train: Report): string | undefined {
  const verdict = train.stability;
  if (typeof verdict?.relative_interval !== "number") return undefined;
  return `${verdict.stable ? "stable" : "unstable"}, interval ${format.percent(verdict.relative_interval)}`;
}

/** Samples of a step over its time; null where either is not known. */
function rate(run: Run, median: number | null | undefined): number | null {
  const samples = run.report?.train?.samples;
  const steps = run.report?.train?.steps;
  if (!samples || !steps || !median) return null;
  return (samples / steps / median) * 1000;
}

function placeFigures(run: Run, path: string, now: number): Figure[] {
  return [
    { label: "Device", value: <a href={link.device(run.device_id)}>{run.device_name}</a>, hint: run.target },
    { label: "Build", value: <a href={link.build(run.build_id)}>{versionText(run.build)}</a> },
    {
      label: "Took",
      value: format.duration(run.started_at, run.finished_at, now),
      hint: run.attempt > 1 ? `attempt ${run.attempt}` : undefined,
      command: curl(path, "{started_at, finished_at}"),
    },
  ];
}
