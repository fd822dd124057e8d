/** One build: progress and log as they come, then its summary and the way to its artifact. */

import { useState } from "preact/hooks";
import { post, type Problem } from "../api/client";
import { type Build, BUILD_ENDED, type BuildProgress, type Run } from "../api/types";
import { LiveBadge, Progress, StateBadge } from "../components/badge";
import { Figures } from "../components/figures";
import { Command } from "../components/copy";
import { LogText, useLog } from "../components/log";
import { Empty, isSettled, Loaded, Loading, Page, ProblemBox, Section } from "../components/page";
import { curl, curlBlob, curlEvents } from "../commands";
import * as format from "../format";
import { asProblem, SELDOM_MS, useList, useResource } from "../data";
import { useChanges, useNow, useStream } from "../hooks";
import { Needs } from "../permission";
import { go, link } from "../router";
import { orderLike } from "./builds/rows";
import { Cancel } from "./cancel";
import { NewRun } from "./run/new_run";
import { recipeText } from "./recipe";
import { summaryFigures } from "./summary";
import { More, RunTable } from "./tables";

export function BuildView({ id }: { readonly id: string }) {
  const path = `/builds/${id}`;
  const build = useResource<Build>(path);
  const [progress, setProgress] = useState<BuildProgress | null>(null);
  const [lines, setLines] = useState("");
  const ended = build.data !== null && BUILD_ENDED.includes(build.data.state);
  const stream = useStream(build.data === null || ended ? null : `${path}/events`, (name, data) => {
    if (name === "state") build.reload();
    else if (name === "progress") setProgress(data as BuildProgress);
    else if (name === "log") setLines((known) => `${known}${(data as { text: string }).text}\n`);
  });
  const log = useLog(ended ? `${path}/log` : null);
  const state = build.data?.state;
  return (
    <Page
      title={build.data ? build.data.name || build.data.model_name : "Build"}
      kind="Build"
      back={{ href: "#/builds", text: "Builds" }}
      command={curl(path)}
      aside={
        state && (
          <>
            <StateBadge state={state} />
            {!ended && <LiveBadge connected={stream.connected} />}
            {!ended && <Cancel path={path} what="build" onCancelled={build.reload} />}
            {build.data && (
              <a class="button" href={link.scheme(build.data.model_id, { build: id })}>
                Edit the scheme
              </a>
            )}
            {build.data && ended && state !== "succeeded" && <Again build={build.data} />}
          </>
        )
      }
    >
      {stream.problem && <ProblemBox problem={stream.problem} />}
      <Loaded of={build} what="the build">
        {(data) => (
          <>
            <Overview build={data} progress={progress ?? data.progress} path={path} />
            {data.failure && (
              <div class="problem" role="alert">
                <p>
                  <strong>The build failed</strong>
                  <span class="code"> failure {data.failure.code}</span>
                </p>
                <p>{data.failure.detail}</p>
              </div>
            )}
            {data.summary && (
              <Section
                title="Summary"
                note={
                  data.artifact_digest && (
                    <a href={link.artifact(data.artifact_digest)}>Open the artifact: memory timeline and nodes</a>
                  )
                }
              >
                <Figures items={summaryFigures(data.summary, path, ".summary")} />
                {data.artifact_digest && (
                  <Command
                    text={curlBlob(data.artifact_digest, `${data.name || data.model_name}.pock`)}
                    of="downloading the artifact"
                  />
                )}
              </Section>
            )}
            {data.state === "succeeded" && (
              <>
                <BuildRuns id={id} />
                <NewRun build={data} />
              </>
            )}
            <Section title="Recipe" command={curl(path, ".recipe")}>
              <pre class="block" tabIndex={0} aria-label="Recipe">
                {recipeText(data.recipe)}
              </pre>
            </Section>
          </>
        )}
      </Loaded>
      {isSettled(build) && (
        <Section title="Log" command={ended ? curl(`${path}/log`) : curlEvents(`${path}/events`)}>
          {log.problem && <ProblemBox problem={log.problem} />}
          {ended && log.text === null && lines === "" ? (
            !log.problem && <Loading what="the log" />
          ) : (
            <LogText text={log.text ?? lines} live={!ended} />
          )}
        </Section>
      )}
    </Page>
  );
}

/** Asks for the same build anew, and leads to it. */
function Again({ build }: { readonly build: Build }) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const retry = () => {
    setBusy(true);
    post<Build>("/builds", orderLike(build, build.target)).then(
      (made) => go(link.build(made.id)),
      (error: unknown) => {
        setProblem(asProblem(error));
        setBusy(false);
      },
    );
  };
  return (
    <Needs scope="builds:write" inline>
      <button type="button" class="button" disabled={busy} onClick={retry}>
        Retry
      </button>
      {problem && <ProblemBox problem={problem} />}
    </Needs>
  );
}

function Overview(props: { readonly build: Build; readonly progress: BuildProgress | null; readonly path: string }) {
  const { build, progress, path } = props;
  const now = useNow();
  return (
    <Section title="Overview">
      {build.state === "running" && progress && (
        <Progress
          label="Progress of the build"
          fraction={progress.fraction}
          text={`${progress.stage}: ${progress.done} of ${progress.total}`}
        />
      )}
      {build.state === "queued" && (
        <p class="note">
          Waiting for a worker
          {build.queue_position !== null && `, position ${build.queue_position} in the queue`}.
        </p>
      )}
      <Figures
        items={[
          { label: "Model", value: <a href={link.model(build.model_id)}>{build.model_name}</a> },
          { label: "Target", value: build.target, command: curl(path, ".target") },
          { label: "Threads", value: build.threads ?? "the target's", command: curl(path, ".threads") },
          {
            label: "Took",
            value: format.duration(build.started_at, build.finished_at, now),
            hint: `requested ${format.ago(build.created_at, now)}`,
            command: curl(path, "{created_at, started_at, finished_at}"),
          },
        ]}
      />
    </Section>
  );
}

function BuildRuns({ id }: { readonly id: string }) {
  const { of, more } = useList<Run>(`/runs?build_id=${id}`, SELDOM_MS);
  useChanges("runs", of.reload);
  return (
    <Section title="Runs" command={curl(`/runs?build_id=${id}`)}>
      <Loaded of={of} what="runs">
        {(runs) =>
          runs.length === 0 ? (
            <Empty title="This build has not run anywhere yet." />
          ) : (
            <RunTable runs={runs} label="Runs of this build" />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
}
