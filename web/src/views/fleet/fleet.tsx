/** The fleet: one card per device. */

import type { Device } from "../../api/types";
import { Ago } from "../../components/ago";
import { StateBadge } from "../../components/badge";
import { CopyButton } from "../../components/copy";
import { Empty, Loaded, Page } from "../../components/page";
import { curl } from "../../commands";
import * as format from "../../format";
import { useList } from "../../data";
import { link } from "../../router";
import { More } from "../tables";
import { EnrolButton, Enrolment } from "./enrol";
import "../../styles/uploads.css";
import "../../styles/fleet.css";

export function FleetView() {
  const { of, more } = useList<Device>("/devices", 3000);
  return (
    <Page title="Fleet" command={curl("/devices")} aside={<EnrolButton />}>
      <Enrolment />
      <Loaded of={of} what="devices">
        {(devices) =>
          devices.length === 0 ? (
            <Empty title="No devices yet.">
              <p>
                <a href="#/fleet?enrol=1">Enrol a device</a> with one command.
              </p>
            </Empty>
          ) : (
            <>
              <p class="note">{fleetSummary(devices)}</p>
              <ul class="grid">
                {devices.map((device) => (
                  <DeviceCard key={device.id} device={device} />
                ))}
              </ul>
            </>
          )
        }
      </Loaded>
      <More more={more} />
    </Page>
  );
}

/** "3 devices: 1 busy, 2 online". */
export function fleetSummary(devices: readonly Device[]): string {
  const counts = new Map<string, number>();
  for (const device of devices) counts.set(device.state, (counts.get(device.state) ?? 0) + 1);
  const parts = [...counts].sort().map(([state, count]) => `${count} ${state}`);
  return `${devices.length} ${devices.length === 1 ? "device" : "devices"}: ${parts.join(", ")}`;
}

function DeviceCard({ device }: { readonly device: Device }) {
  return (
    <li class="card device">
      <div class="device-head">
        <h2>
          <a href={link.device(device.id)}>{device.name}</a>
        </h2>
        <StateBadge state={device.state} />
      </div>
      <dl class="facts">
        <div>
          <dt>Target</dt>
          <dd>{device.target ?? format.NOTHING}</dd>
        </div>
        <div>
          <dt>
            Last seen{" "}
            <CopyButton text={curl(`/devices/${device.id}`, ".last_seen_at")} of={`${device.name}, last seen`} />
          </dt>
          <dd>
            <Ago time={device.last_seen_at} />
          </dd>
        </div>
        <div>
          <dt>Current run</dt>
          <dd>
            {device.current_run_id ? (
              <a href={link.run(device.current_run_id)}>{format.shortId(device.current_run_id)}</a>
            ) : (
              "none"
            )}
          </dd>
        </div>
      </dl>
    </li>
  );
}
