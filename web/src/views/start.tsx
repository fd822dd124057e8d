/** The first page: what is going on, and how to begin when nothing is. */

import type { Build, Device, Model, Run } from "../api/types";
import { Figures } from "../components/figures";
import { Command } from "../components/copy";
import { Loaded, Page, Section } from "../components/page";
import { curl, curlPost } from "../commands";
import { type List, useList } from "../data";
import { BuildTable, RunTable } from "./tables";

const RECENT = 5;
const UNDER_WAY = ["waiting", "queued", "leased", "running"];

/** Length of what was loaded; "100+" when the server has more. */
function countOf<T>(list: List<T>, wanted: (item: T) => boolean = () => true): string {
  if (list.of.data === null) return "…";
  return `${list.of.data.filter(wanted).length}${list.more ? "+" : ""}`;
}

export function StartView() {
  const devices = useList<Device>("/devices", 5000);
  const models = useList<Model>("/models", 10_000);
  const builds = useList<Build>("/builds", 3000);
  const runs = useList<Run>("/runs", 3000);
  const nothing = [devices, models].some((list) => list.of.data?.length === 0);
  return (
    <Page title="Overview">
      <Section title="Now">
        <Figures
          items={[
            {
              label: "Devices reachable",
              value: (
                <a href="#/fleet">{countOf(devices, (item) => item.state === "online" || item.state === "busy")}</a>
              ),
              hint: `of ${countOf(devices)} enrolled`,
              command: curl("/devices", '[.items[] | select(.state == "online" or .state == "busy")] | length'),
            },
            {
              label: "Models",
              value: <a href="#/models">{countOf(models)}</a>,
              command: curl("/models", ".items | length"),
            },
            {
              label: "Builds under way",
              value: <a href="#/builds">{countOf(builds, (item) => UNDER_WAY.includes(item.state))}</a>,
              hint: `of ${countOf(builds)}`,
              command: curl("/builds", "[.items[] | select(.finished_at == null)] | length"),
            },
            {
              label: "Runs under way",
              value: <a href="#/runs">{countOf(runs, (item) => UNDER_WAY.includes(item.state))}</a>,
              hint: `of ${countOf(runs)}`,
              command: curl("/runs", "[.items[] | select(.finished_at == null)] | length"),
            },
          ]}
        />
      </Section>
      {nothing && <FirstSteps />}
      <Section title="Latest runs" command={curl(`/runs?limit=${RECENT}`)}>
        <Loaded of={runs.of} what="runs">
          {(items) =>
            items.length === 0 ? (
              <p class="note">Nothing has run yet.</p>
            ) : (
              <RunTable runs={items.slice(0, RECENT)} label="Latest runs" />
            )
          }
        </Loaded>
      </Section>
      <Section title="Latest builds" command={curl(`/builds?limit=${RECENT}`)}>
        <Loaded of={builds.of} what="builds">
          {(items) =>
            items.length === 0 ? (
              <p class="note">Nothing has been built yet.</p>
            ) : (
              <BuildTable builds={items.slice(0, RECENT)} label="Latest builds" />
            )
          }
        </Loaded>
      </Section>
    </Page>
  );
}

function FirstSteps() {
  return (
    <Section title="First steps">
      <ol class="steps">
        <li>
          Check a model and a recipe on this machine:
          <Command text="pock check model.onnx --recipe recipe.yaml --target host" of="checking a model" />
        </li>
        <li>
          Make a token for a device, good once and for 15 minutes:
          <Command text={curlPost("/enrollment-tokens", { name: "my-device" })} of="making an enrolment token" />
        </li>
        <li>
          On the device:
          <Command text={`pock-agent enroll ${location.origin} TOKEN && pock-agent run`} of="enrolling the device" />
        </li>
      </ol>
    </Section>
  );
}
