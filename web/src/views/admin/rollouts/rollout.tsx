/** One rollout: how far it is, what to do with it, and how each device stands. */

import type { Rollout, RolloutDevice } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago } from "../../../components/ago";
import { Deeds } from "../../../components/deeds";
import { type Figure, Figures } from "../../../components/figures";
import { Empty, isSettled, Loaded, Section, TableFrame } from "../../../components/page";
import { useList, useResource } from "../../../data";
import * as format from "../../../format";
import { whyNot } from "../../../permission";
import { address, link, setQuery } from "../../../router";
import { More } from "../../tables";
import type { ViewProps } from "../../table_of_views";
import { Badge } from "../../../components/tone_badge";
import { AdminPage } from "../frame";
import { DEEDS, DEVICE_STATES, DEVICE_TONES, deviceCount, ROLLOUT_TONES, stageText, stateText } from "./parts";

const EVERY_MS = 5000;

export function RolloutView({ id }: ViewProps) {
  const path = `/rollouts/${encodeURIComponent(id)}`;
  const allowed = whyNot("read") === null;
  const rollout = useResource<Rollout>(allowed ? path : null, EVERY_MS);
  const asked = address.value?.query.get("state");
  const state = DEVICE_STATES.find((one) => one === asked);
  const listed = `${path}/devices${state ? `?state=${state}` : ""}`;
  const { of, more } = useList<RolloutDevice>(allowed ? listed : null, EVERY_MS);
  const changed = () => {
    rollout.reload();
    of.reload();
  };
  return (
    <AdminPage part="Rollouts" command={curl(path)}>
      <p class="back">
        <a href="#/admin/rollouts">← All rollouts</a>
      </p>
      <Loaded of={rollout} what="the rollout">
        {(known) => <Summary of={known} path={path} changed={changed} />}
      </Loaded>
      {isSettled(rollout) && (
        <Section title="Devices" command={curl(listed)}>
          <label class="field field-state">
            <span>State</span>
            <select value={state ?? ""} onChange={(event) => setQuery({ state: event.currentTarget.value || null })}>
              <option value="">any</option>
              {DEVICE_STATES.map((one) => (
                <option key={one} value={one}>
                  {stateText(one)}
                </option>
              ))}
            </select>
          </label>
          <Loaded of={of} what="devices">
            {(devices) =>
              devices.length === 0 ? <Empty title="No device is in this state." /> : <DeviceTable devices={devices} />
            }
          </Loaded>
          <More more={more} />
        </Section>
      )}
    </AdminPage>
  );
}

interface SummaryProps {
  readonly of: Rollout;
  readonly path: string;
  readonly changed: () => void;
}

function Summary({ of, path, changed }: SummaryProps) {
  const refused = whyNot("devices:admin");
  return (
    <Section title={`Agent ${of.version} to ${of.on}`} command={curl(path)}>
      {of.reason && <p class="problem">{of.reason}</p>}
      <Figures items={figures(of, path)} />
      <p class="actions rollout-actions">
        <Deeds
          deeds={DEEDS}
          state={of.state}
          what={`the rollout of agent ${of.version}`}
          path={path}
          refused={refused}
          onDone={changed}
        />
      </p>
      {refused && <p class="needs-reason">{refused}</p>}
    </Section>
  );
}

function figures(of: Rollout, path: string): Figure[] {
  const bad = deviceCount(of, ["failed", "rolled_back"]);
  return [
    {
      label: "State",
      value: <Badge tone={ROLLOUT_TONES[of.state]} text={of.state} />,
      hint: stageText(of),
      command: curl(path, ".state"),
    },
    {
      label: "Healthy",
      value: format.count(deviceCount(of, ["healthy"])),
      hint: `of ${format.count(deviceCount(of))} devices; one is after ${of.healthy_seconds} s`,
      command: curl(path, ".devices.healthy"),
    },
    {
      label: "Failed",
      value: format.count(bad),
      hint: `it stops with more than ${format.count(of.max_failed)}`,
      command: curl(path, "[.devices.failed, .devices.rolled_back] | add // 0"),
    },
    {
      label: "Under way",
      value: format.count(deviceCount(of, ["offered", "installing"])),
      hint: `${format.count(deviceCount(of, ["pending"]))} wait for their stage`,
      command: curl(path, "[.devices.offered, .devices.installing] | add // 0"),
    },
    {
      label: "Begun",
      value: <Ago time={of.started_at ?? of.created_at} />,
      hint: of.finished_at ? (
        <>
          over <Ago time={of.finished_at} />
        </>
      ) : (
        "not over"
      ),
    },
  ];
}

function DeviceTable({ devices }: { readonly devices: readonly RolloutDevice[] }) {
  return (
    <TableFrame label="Devices of the rollout">
      <table>
        <thead>
          <tr>
            <th scope="col">Device</th>
            <th scope="col">Stage</th>
            <th scope="col">State</th>
            <th scope="col">What it says</th>
            <th scope="col">Version before</th>
            <th scope="col">Changed</th>
          </tr>
        </thead>
        <tbody>
          {devices.map((device) => (
            <tr key={device.device_id}>
              <td class="wrap">
                <a href={link.device(device.device_id)}>{device.device_name}</a>
              </td>
              <td>{device.stage < 0 ? "none" : device.stage === 0 ? "canary" : device.stage}</td>
              <td>
                <Badge tone={DEVICE_TONES[device.state]} text={stateText(device.state)} />
              </td>
              <td class="wrap">{device.detail || format.NOTHING}</td>
              <td>{device.version_before ?? format.NOTHING}</td>
              <td>
                <Ago time={device.changed_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
