/** One run: loss and step time as they come, accuracy before and after, memory against the plan. */

import { useEffect, useMemo, useState } from "preact/hooks";
import { get, type Problem } from "../api/client";
import { type Report, type Run, RUN_ENDED, type Step } from "../api/types";
import { LiveBadge, Progress, StateBadge } from "../components/badge";
import { Chart } from "../components/chart";
import { Figures, Facts, type Figure } from "../components/figures";
import { Empty, Loaded, Loading, Page, ProblemBox, Section } from "../components/page";
import { curl, curlBlob, curlEvents } from "../commands";
import { Command } from "../components/copy";
import { factRows } from "../facts";
import * as format from "../format";
import { asProblem, useResource } from "../data";
import { useNow, useStream } from "../hooks";
import { link } from "../router";
import { mergeSteps, movingMean, quantile, times } from "../series";
import { Cancel } from "./cancel";
import { Kernels } from "./kernels";
import { PlannedAgainstMeasured } from "./memory";

export function RunView({ id }: { readonly id: string }) {
  const path = `/runs/${id}`;
  const run = useResource<Run>(path);
  const [live, setLive] = useState<readonly Step[]>([]);
  const ended = run.data !== null && RUN_ENDED.includes(run.data.state);
  // While a run goes on, its stream repeats everything from the first step.
  const stored = useStoredSteps(ended ? path : null);
  const stream = useStream(run.data === null || ended ? null : `${path}/events`, (name, data) => {
    if (name === "steps") return setLive((known) => mergeSteps(known, (data as { items: Step[] }).items));
    // A run that is leased again begins again: the steps of the lost attempt no longer count.
    if (name === "state" && (data as { state: string }).state === "leased") setLive([]);
    run.reload();
  });
  const steps = useMemo(() => mergeSteps(stored.steps, live), [stored.steps, live]);
  const data = run.data;
  return (
    <Page
      title={data ? `${data.entry}, ${data.steps} steps on ${data.device_name}` : "Run"}
      kind="Run"
      back={{ href: "#/runs", text: "Runs" }}
      command={curl(path)}
      aside={
        data && (
          <>
            <StateBadge state={data.state} />
            {!ended && <LiveBadge connected={stream.connected} />}
            {!ended && <Cancel path={path} what="run" onCancelled={run.reload} />}
          </>
        )
      }
    >
      {stream.problem && <ProblemBox problem={stream.problem} />}
      <Loaded of={run} what="the run">
        {(loaded) => (
          <>
            <Overview run={loaded} steps={steps} path={path} />
            {loaded.failure && (
              <div class="problem" role="alert">
                <p>
                  <strong>The run failed</strong>
                  <span class="code"> failure {loaded.failure.code}</span>
                </p>
                <p>{loaded.failure.detail}</p>
              </div>
            )}
          </>
        )}
      </Loaded>
      {stored.problem && <ProblemBox problem={stored.problem} />}
      {steps.length === 0 && ended && !stored.complete && <Loading what="steps" />}
      {data && (steps.length > 0 || !ended || stored.complete) && <Curves steps={steps} ended={ended} path={path} />}
      {data?.report?.train?.peak_rss_bytes && (
        <Section title="Planned against measured memory">
          <PlannedAgainstMeasured runs={[data]} planned={null} />
        </Section>
      )}
      {data?.report?.train?.kernels && (
        <Section title="Time per operator" command={curl(path, ".report.train.kernels")}>
          <Kernels kernels={data.report.train.kernels} />
        </Section>
      )}
      {data?.report?.health && Object.keys(data.report.health).length > 0 && (
        <Section title="Health of the device" command={curl(path, ".report.health")}>
          <Facts items={factRows(data.report.health)} />
        </Section>
      )}
      {data?.weights_digest && (
        <Section
          title="Trained weights"
          note="A safetensors file with the parameters under their own names; PyTorch reads it with safetensors.torch.load_file."
        >
          <Command text={curlBlob(data.weights_digest, "trained.safetensors")} of="downloading the trained weights" />
        </Section>
      )}
    </Page>
  );
}

function Overview(props: { readonly run: Run; readonly steps: readonly Step[]; readonly path: string }) {
  const { run, steps, path } = props;
  const now = useNow();
  const done = steps.at(-1)?.step ?? run.progress?.step ?? 0;
  return (
    <Section title="Overview">
      {run.state === "running" && (
        <Progress
          label="Progress of the run"
          fraction={done / Math.max(1, run.steps)}
          text={`step ${done} of ${run.steps}`}
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

/** Loss, accuracy and times: from the report when there is one, from the steps so far until then. */
function resultFigures(run: Run, steps: readonly Step[], path: string): Figure[] {
  const train = run.report?.train;
  const measured = times(steps);
  const median = train?.step_ms?.median ?? quantile(measured, 0.5);
  const p90 = train?.step_ms?.p90 ?? quantile(measured, 0.9);
  const before = run.report?.eval_before;
  const after = run.report?.eval_after;
  const figures: Figure[] = [
    {
      label: "Loss, first → last",
      value: `${format.loss(steps[0]?.loss)} → ${format.loss(steps.at(-1)?.loss)}`,
      command: curl(`${path}/steps`, "[.items[0].loss, .items[-1].loss]"),
    },
    {
      label: "Step time, median",
      value: format.milliseconds(median),
      hint: train?.step_ms ? stability(train) : "so far",
      command: curl(path, ".report.train.step_ms.median"),
    },
    { label: "Step time, p90", value: format.milliseconds(p90), command: curl(path, ".report.train.step_ms.p90") },
  ];
  if (before ?? after)
    figures.unshift({
      label: "Accuracy, before → after",
      value: `${format.percent(before?.accuracy)} → ${format.percent(after?.accuracy)}`,
      hint: `on ${format.count((after ?? before)?.samples)} held-out samples`,
      command: curl(path, "[.report.eval_before.accuracy, .report.eval_after.accuracy]"),
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

function placeFigures(run: Run, path: string, now: number): Figure[] {
  return [
    { label: "Device", value: <a href={link.device(run.device_id)}>{run.device_name}</a>, hint: run.target },
    { label: "Build", value: <a href={link.build(run.build_id)}>{format.shortId(run.build_id)}</a> },
    {
      label: "Took",
      value: format.duration(run.started_at, run.finished_at, now),
      hint: run.attempt > 1 ? `attempt ${run.attempt}` : undefined,
      command: curl(path, "{started_at, finished_at}"),
    },
  ];
}

function Curves(props: { readonly steps: readonly Step[]; readonly ended: boolean; readonly path: string }) {
  const { steps, ended, path } = props;
  const x = useMemo(() => steps.map((step) => step.step), [steps]);
  const lossLines = useMemo(() => {
    const losses = steps.map((step) => step.loss);
    const window = Math.max(2, Math.round(losses.length / 20));
    return [
      { label: "Loss of the step", values: losses, color: "series-1", style: "faint" as const },
      {
        label: "Mean of the last steps",
        values: movingMean(losses, window),
        color: "series-1",
        style: "line" as const,
      },
    ];
  }, [steps]);
  const timeLines = useMemo(
    () => [{ label: "Step time", values: steps.map((step) => step.ms), color: "series-2", style: "points" as const }],
    [steps],
  );
  const command = ended ? curl(`${path}/steps`) : curlEvents(`${path}/events`);
  if (steps.length === 0)
    return (
      <Section title="Loss" command={command}>
        <Empty title={ended ? "The run ended before its first step." : "No step has been reported yet."} />
      </Section>
    );
  const measured = times(steps);
  return (
    <>
      <Section title="Loss" command={command}>
        <Chart
          description={
            `Loss over ${steps.length} steps: ${format.loss(steps[0]?.loss)} at step ${steps[0]?.step}, ` +
            `${format.loss(steps.at(-1)?.loss)} at step ${steps.at(-1)?.step}.`
          }
          x={x}
          xLabel="Step"
          lines={lossLines}
          format={format.loss}
        />
      </Section>
      <Section title="Step time" command={command}>
        <Chart
          description={
            `${measured.length} samples: median ${format.milliseconds(quantile(measured, 0.5))}, ` +
            `10th percentile ${format.milliseconds(quantile(measured, 0.1))}, ` +
            `90th percentile ${format.milliseconds(quantile(measured, 0.9))}.`
          }
          x={x}
          xLabel="Step"
          lines={timeLines}
          format={format.milliseconds}
          unit=" ms"
          fromZero
        />
      </Section>
    </>
  );
}

interface StoredSteps {
  readonly steps: readonly Step[];
  /** False until everything has arrived, or it turned out that it will not. */
  readonly complete: boolean;
  readonly problem: Problem | null;
}

/** The steps that the server has stored, page by page from the first. */
function useStoredSteps(path: string | null): StoredSteps {
  const [state, setState] = useState<StoredSteps>({ steps: [], complete: false, problem: null });
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    const load = async () => {
      let steps: Step[] = [];
      for (;;) {
        const after = steps.at(-1)?.step ?? -1;
        const page = await get<{ items: Step[] }>(`${path}/steps?after=${after}`, abort.signal);
        steps = mergeSteps(steps, page.items);
        const complete = page.items.length === 0;
        setState({ steps, complete, problem: null });
        if (complete) return;
      }
    };
    load().catch((error: unknown) => {
      if (!abort.signal.aborted) setState((old) => ({ ...old, complete: true, problem: asProblem(error) }));
    });
    return () => abort.abort();
  }, [path]);
  return state;
}
