/** One run: loss and step time as they come, accuracy before and after, memory against the plan; of a benchmark, what
 *  it measured. */

import { useMemo, useState } from "preact/hooks";
import { type Run, RUN_ENDED, type Step } from "../../api/types";
import { LiveBadge, RunState } from "../../components/badge";
import { Facts } from "../../components/figures";
import { Later } from "../../components/later";
import { LogText, useLog } from "../../components/log";
import { Loaded, Loading, Page, ProblemBox, Section } from "../../components/page";
import { curl } from "../../commands";
import { factRows } from "../../facts";
import { useResource } from "../../data";
import { useGathered, useStream } from "../../hooks";
import { runText } from "../../names";
import { link } from "../../router";
import { mergeSteps } from "../../series";
import { Cancel } from "../cancel";
import { Curves } from "./curves";
import { Overview } from "./overview";
import { Kernels } from "./kernels";
import { Measured } from "./measured";
import { PartOf } from "./part_of";
import { PlannedAgainstMeasured } from "../memory";
import { useStoredSteps } from "./stored_steps";
import { Weights } from "./weights";

/** So often are curves drawn again at most: a device may tell of hundreds of steps a second. */
const DRAWN_MS = 1000;

export function RunView({ id }: { readonly id: string }) {
  const path = `/runs/${id}`;
  const run = useResource<Run>(path);
  const [live, setLive] = useState<readonly Step[]>([]);
  const [happened, setHappened] = useState(0);
  const gathered = useGathered<Step>((items) => setLive((known) => mergeSteps(known, items)), DRAWN_MS);
  const ended = run.data !== null && RUN_ENDED.includes(run.data.state);
  // While a run goes on, its stream repeats everything from the first step.
  const stored = useStoredSteps(ended ? path : null);
  const stream = useStream(run.data === null || ended ? null : `${path}/events`, (name, data) => {
    if (name === "steps") return gathered.add((data as { items: Step[] }).items);
    // A run that is leased again begins again: the steps of the lost attempt no longer count.
    if (name === "state" && (data as { state: string }).state === "leased") {
      gathered.drop();
      setLive([]);
    }
    setHappened((count) => count + 1);
    run.reload();
  });
  const log = useLog(`${path}/log`, happened);
  const steps = useMemo(() => mergeSteps(stored.steps, live), [stored.steps, live]);
  const data = run.data;
  const drawn = steps.length > 0 || !ended || stored.complete;
  const trains = data?.entry === "train";
  return (
    <Page
      title={data ? `${runText(data)} on ${data.device_name}` : "Run"}
      kind="Run"
      back={{ href: "#/runs", text: "Runs" }}
      command={curl(path)}
      below={data?.part_of && <PartOf run={data} />}
      aside={
        data && (
          <>
            <RunState run={data} />
            {!ended && <LiveBadge connected={stream.connected} />}
            <a class="button" href={link.compare([id])}>
              Compare
            </a>
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
      {data?.entry === "bench" && <Measured run={data} ended={ended} />}
      {data && trains && !drawn && <Loading what="steps" />}
      {data && drawn && (trains || steps.length > 0) && <Curves run={data} steps={steps} ended={ended} path={path} />}
      {data && drawn && <Afterwards run={data} path={path} />}
      {data && (drawn || stored.problem) && (
        <Later>
          <Section title="Log" command={curl(`${path}/log`)}>
            {log.problem && <ProblemBox problem={log.problem} />}
            {log.text !== null && <LogText text={log.text} live={!ended} />}
          </Section>
        </Later>
      )}
    </Page>
  );
}

/** What is known once a run is over. */
function Afterwards({ run, path }: { readonly run: Run; readonly path: string }) {
  const { train, health } = run.report ?? {};
  return (
    <>
      {train?.peak_rss_bytes && (
        <Later>
          <Section title="Planned against measured memory">
            <PlannedAgainstMeasured runs={[run]} planned={null} />
          </Section>
        </Later>
      )}
      {train?.kernels && (
        <Later>
          <Section title="Time per operator" command={curl(path, ".report.train.kernels")}>
            <Kernels kernels={train.kernels} run={runText(run)} />
          </Section>
        </Later>
      )}
      {health && Object.keys(health).length > 0 && (
        <Later>
          <Section title="Health of the device" command={curl(path, ".report.health")}>
            <Facts items={factRows(health)} />
          </Section>
        </Later>
      )}
      <Later>
        <Weights run={run} />
      </Later>
    </>
  );
}
