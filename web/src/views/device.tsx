/** One device: what it is, what it runs, what it has run. */

import type { Device, Run } from "../api/types";
import { StateBadge } from "../components/badge";
import { Figures, Facts } from "../components/figures";
import { Empty, Loaded, Page, Section } from "../components/page";
import { curl } from "../commands";
import { factRows } from "../facts";
import * as format from "../format";
import { useList, useResource } from "../data";
import { useNow } from "../hooks";
import { link } from "../router";
import { More, RunTable } from "./tables";

export function DeviceView({ id }: { readonly id: string }) {
  const device = useResource<Device>(`/devices/${id}`, 3000);
  const { of: runs, more } = useList<Run>(`/runs?device_id=${id}`, 3000);
  const path = `/devices/${id}`;
  return (
    <Page
      title={device.data?.name ?? "Device"}
      kind="Device"
      back={{ href: "#/fleet", text: "Fleet" }}
      command={curl(path)}
      aside={device.data && <StateBadge state={device.data.state} />}
    >
      <Loaded of={device} what="the device">
        {(data) => <DeviceFigures device={data} path={path} />}
      </Loaded>
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
    </Page>
  );
}

function DeviceFigures({ device, path }: { readonly device: Device; readonly path: string }) {
  const now = useNow();
  const facts = factRows(device.facts);
  return (
    <>
      <Section title="Now">
        <Figures
          items={[
            {
              label: "Last seen",
              value: format.ago(device.last_seen_at, now),
              hint: device.last_seen_at && format.timestamp(device.last_seen_at),
              command: curl(path, ".last_seen_at"),
            },
            { label: "Target", value: device.target ?? format.NOTHING, command: curl(path, ".target") },
            {
              label: "Current run",
              value: device.current_run_id ? (
                <a href={link.run(device.current_run_id)}>{format.shortId(device.current_run_id)}</a>
              ) : (
                "none"
              ),
              command: curl(path, ".current_run_id"),
            },
            { label: "Agent", value: device.agent_version ?? format.NOTHING, command: curl(path, ".agent_version") },
          ]}
        />
      </Section>
      <Section title="Facts" note="As the device reported them." command={curl(path, ".facts")}>
        {facts.length === 0 ? <Empty title="The device has reported none." /> : <Facts items={facts} />}
      </Section>
    </>
  );
}
