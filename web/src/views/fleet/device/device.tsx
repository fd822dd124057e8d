/** One device: what it is and how it is, what it may do when, what it measured, what it has run. */

import type { Benchmark, Device, DevicePolicy, Run } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago, At } from "../../../components/ago";
import { StateBadge } from "../../../components/badge";
import { Facts, Figures } from "../../../components/figures";
import { Later } from "../../../components/later";
import { memo } from "../../../components/memo";
import { Empty, isSettled, Loaded, Page, Section } from "../../../components/page";
import { type Resource, SELDOM_MS, useList, useResource } from "../../../data";
import { factRows } from "../../../facts";
import * as format from "../../../format";
import { useChanges } from "../../../hooks";
import { link } from "../../../router";
import { More, RunTable } from "../../tables";
import { labelText, Temperature } from "../columns";
import { Benchmarks, benchmarksOf } from "./benchmarks";
import { DeviceChanges } from "./changes";
import { History } from "./history_section";
import { PolicySection } from "../rules/section";
import "../../../styles/uploads.css";
import "../../../styles/fleet.css";

/** What a device reports of itself is told by no event. */
const RENEWED_MS = 10_000;

export function DeviceView({ id }: { readonly id: string }) {
  const path = `/devices/${id}`;
  const device = useResource<Device>(path, RENEWED_MS);
  const policy = useResource<DevicePolicy>(`${path}/policy`, SELDOM_MS);
  const { of: runs, more } = useList<Run>(`/runs?device_id=${id}`, SELDOM_MS);
  const { of: benchmarks } = useList<Benchmark>(...benchmarksOf(id));
  useChanges("devices", (changes) => {
    if (!changes || changes.more || changes.changed.some((one) => one.id === id)) device.reload();
  });
  useChanges("runs", runs.reload);
  return (
    <Page
      title={device.data?.name ?? "Device"}
      kind="Device"
      back={{ href: "#/fleet", text: "Fleet" }}
      command={curl(path)}
      aside={device.data && <StateBadge state={device.data.state} />}
    >
      <Loaded of={device} what="the device">
        {(data) => (
          <>
            <Now device={data} path={path} />
            <Later key={id}>
              <Changes device={data} onChanged={device.reload} />
            </Later>
          </>
        )}
      </Loaded>
      {device.data && (
        <Later key={id}>
          <Rules device={device.data} policy={policy} />
        </Later>
      )}
      {isSettled(device, policy, benchmarks) && (
        <>
          {runs.data && (
            <Later>
              <Measured id={id} runs={runs.data} benchmarks={benchmarks.data} />
            </Later>
          )}
          <Later>
            <Runs id={id} runs={runs} more={more} />
          </Later>
        </>
      )}
      {isSettled(device, policy, runs) && (
        <Later>
          <Benchmarks deviceId={id} />
        </Later>
      )}
      {device.data && isSettled(policy, runs) && (
        <Later>
          <ReportedFacts device={device.data} path={path} />
        </Later>
      )}
    </Page>
  );
}

interface DeviceProps {
  readonly device: Device;
  readonly path: string;
}

const Now = memo(function Now({ device, path }: DeviceProps) {
  const { current_run_id: run, resting } = device;
  return (
    <Section title="Now">
      <Figures
        items={[
          { label: "Last seen", value: <Ago time={device.last_seen_at} />, command: curl(path, ".last_seen_at") },
          {
            label: "Present job",
            value: run ? <a href={link.run(run)}>{device.current_run_name ?? format.shortId(run)}</a> : "none",
            command: curl(path, ".current_run_name"),
          },
          {
            label: "Temperature",
            value: <Temperature device={device} />,
            hint: "as it last reported",
            command: curl(path, ".temperature_c"),
          },
          { label: "Memory", value: format.bytes(device.memory_bytes), command: curl(path, ".memory_bytes") },
          { label: "Target", value: device.target ?? format.NOTHING, command: curl(path, ".target") },
          { label: "Agent", value: device.agent_version ?? format.NOTHING, command: curl(path, ".agent_version") },
          { label: "Pool", value: device.pool, command: curl(path, ".pool") },
          { label: "Labels", value: labelText(device.labels) || "none", command: curl(path, ".labels") },
        ]}
      />
      {resting && (
        <p class="note device-rests">
          Rests since <Ago time={resting.since} />: {resting.reason}.
          {resting.until && (
            <>
              {" "}
              Until <At time={resting.until} />.
            </>
          )}{" "}
          What is asked of it waits.
        </p>
      )}
    </Section>
  );
});

const Changes = memo(DeviceChanges);
const Rules = memo(PolicySection);
const Measured = memo(History);

interface RunsProps {
  readonly id: string;
  readonly runs: Resource<readonly Run[]>;
  readonly more: (() => void) | null;
}

const Runs = memo(function Runs({ id, runs, more }: RunsProps) {
  return (
    <Section title="Runs" command={curl(`/runs?device_id=${id}`)}>
      <Loaded of={runs} what="runs">
        {(items) =>
          items.length === 0 ? (
            <Empty title="Nothing has run on this device yet." />
          ) : (
            <RunTable runs={items} label="Runs on this device" />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
});

const ReportedFacts = memo(function ReportedFacts({ device, path }: DeviceProps) {
  const facts = factRows(device.facts);
  return (
    <Section title="Facts" note="As the device reported them." command={curl(path, ".facts")}>
      {facts.length === 0 ? <Empty title="The device has reported none." /> : <Facts items={facts} />}
    </Section>
  );
});
