/** The first page: what needs somebody, what goes on, what came of it last; and how to begin when nothing is there. */

import type { Build, Overview, Run } from "../api/types";
import { type Figure, Figures } from "../components/figures";
import { isSettled, Loaded, Page, Section } from "../components/page";
import { curl } from "../commands";
import { SELDOM_MS, useList, useResource } from "../data";
import * as format from "../format";
import { type Changes, useChanges } from "../hooks";
import { Concerns } from "./start_concerns";
import { FirstSteps } from "./start_steps";
import { BuildTable, RunTable } from "./tables";
import "../styles/start.css";

const RECENT = 5;
/** Counting a large service takes longer than showing its newest rows. */
const COUNTS_MS = 3000;
const UNDER_WAY = ["waiting", "queued", "leased", "running"];

/** How many there are of all states, or of some. */
function sum(counts: Readonly<Partial<Record<string, number>>>, states?: readonly string[]): number {
  const entries = Object.entries(counts).filter(([state]) => states?.includes(state) ?? true);
  return entries.reduce((total, [, count]) => total + (count ?? 0), 0);
}

export function StartView() {
  const overview = useResource<Overview>("/overview", SELDOM_MS);
  const running = useList<Run>("/runs?state=running", SELDOM_MS, RECENT);
  const building = useList<Build>("/builds?state=running", SELDOM_MS, RECENT);
  const runs = useList<Run>("/runs?state=succeeded", SELDOM_MS, RECENT);
  const builds = useList<Build>("/builds?state=succeeded", SELDOM_MS, RECENT);
  useChanges("runs", () => [running, runs].forEach(({ of }) => of.reload()));
  useChanges("builds", () => [building, builds].forEach(({ of }) => of.reload()));
  const recount = (changes: Changes | null) => {
    if (!changes || changes.changed.length > 0 || changes.more) overview.reload();
  };
  useChanges("runs", recount, COUNTS_MS);
  useChanges("builds", recount, COUNTS_MS);
  useChanges("devices", recount, COUNTS_MS);
  const now = [...(running.of.data ?? []), ...(building.of.data ?? [])].length > 0;
  return (
    <Page title="Overview">
      <Loaded of={overview} what="the overview">
        {(known) => (
          <>
            <Concerns concerns={known.concerns} />
            <FirstSteps overview={known} />
            <Section title="Now">
              <div class="start-figures">
                <Figures items={figures(known)} />
              </div>
              {now && <UnderWay runs={running.of.data ?? []} builds={building.of.data ?? []} overview={known} />}
            </Section>
          </>
        )}
      </Loaded>
      {isSettled(overview, running.of, building.of) && (
        <Section title="Latest runs that succeeded" command={curl(`/runs?state=succeeded&limit=${RECENT}`)}>
          <Loaded of={runs.of} what="runs">
            {(items) =>
              items.length === 0 ? (
                <p class="note">Nothing has run to its end yet.</p>
              ) : (
                <RunTable runs={items.slice(0, RECENT)} label="Latest runs" />
              )
            }
          </Loaded>
        </Section>
      )}
      {isSettled(overview, running.of, building.of, runs.of) && (
        <Section title="Latest builds that succeeded" command={curl(`/builds?state=succeeded&limit=${RECENT}`)}>
          <Loaded of={builds.of} what="builds">
            {(items) =>
              items.length === 0 ? (
                <p class="note">Nothing has been built to its end yet.</p>
              ) : (
                <BuildTable builds={items.slice(0, RECENT)} label="Latest builds" />
              )
            }
          </Loaded>
        </Section>
      )}
    </Page>
  );
}

/** Each with the true count of the whole workspace. */
function figures({ devices, models, datasets, builds, runs }: Overview): Figure[] {
  const of = (name: string) => curl("/overview", name);
  return [
    {
      label: "Devices reachable",
      value: <a href="#/fleet">{format.count(sum(devices, ["online", "busy"]))}</a>,
      hint: `of ${format.count(sum(devices))} enrolled, ${format.count(sum(devices, ["busy"]))} busy`,
      command: of(".devices | (.online // 0) + (.busy // 0)"),
    },
    {
      label: "Runs under way",
      value: <a href="#/runs">{format.count(sum(runs, UNDER_WAY))}</a>,
      hint: `${format.count(sum(runs, ["waiting", "queued"]))} waiting, ${format.count(sum(runs))} in all`,
      command: of(".runs | [.waiting, .queued, .leased, .running] | add // 0"),
    },
    {
      label: "Builds under way",
      value: <a href="#/builds">{format.count(sum(builds, UNDER_WAY))}</a>,
      hint: `${format.count(sum(builds, ["queued"]))} waiting, ${format.count(sum(builds))} in all`,
      command: of(".builds | [.queued, .running] | add // 0"),
    },
    { label: "Models", value: <a href="#/models">{format.count(models)}</a>, command: of(".models") },
    { label: "Datasets", value: <a href="#/datasets">{format.count(datasets)}</a>, command: of(".datasets") },
  ];
}

interface UnderWayProps {
  readonly runs: readonly Run[];
  readonly builds: readonly Build[];
  readonly overview: Overview;
}

/** The newest that are at work, with their progress; how many more there are, the counts say. */
function UnderWay({ runs, builds, overview }: UnderWayProps) {
  const [moreRuns, moreBuilds] = [
    sum(overview.runs, ["running"]) - Math.min(runs.length, RECENT),
    sum(overview.builds, ["running"]) - Math.min(builds.length, RECENT),
  ];
  return (
    <>
      {runs.length > 0 && <RunTable runs={runs.slice(0, RECENT)} label="Runs under way" />}
      {moreRuns > 0 && (
        <p class="start-more">
          <a href="#/runs?state=running">{format.count(moreRuns)} more run</a>
        </p>
      )}
      {builds.length > 0 && <BuildTable builds={builds.slice(0, RECENT)} label="Builds under way" />}
      {moreBuilds > 0 && (
        <p class="start-more">
          <a href="#/builds?state=running">{format.count(moreBuilds)} more are built</a>
        </p>
      )}
    </>
  );
}
