/** The tuning database: what is known of kernels, the searches for more, and the devices that are not believed. */

import { post, send } from "../../../api/client";
import type { Distrust, Tuning, TuningEntry } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago } from "../../../components/ago";
import { ConfirmButton } from "../../../components/confirm_button";
import { Empty, Loaded, Section, TableFrame } from "../../../components/page";
import { useList } from "../../../data";
import * as format from "../../../format";
import { whyNot } from "../../../permission";
import { link } from "../../../router";
import { More } from "../../tables";
import { Badge, type Tone } from "../../../components/tone_badge";
import { AdminPage } from "../frame";
import { entriesPath, EntryFilters, EntryTable } from "./entries";

const EVERY_MS = 15_000;

export function TuningView() {
  const allowed = whyNot("read") === null;
  const path = entriesPath();
  const entries = useList<TuningEntry>(allowed ? path : null, EVERY_MS);
  return (
    <AdminPage part="Tuning" command={curl(path)}>
      <Section
        title="What is known"
        note="The best kernel for a workload on a target, as devices measured it or a file said."
        command={curl(path)}
      >
        <EntryFilters entries={entries.of.data ?? []} />
        <Loaded of={entries.of} what="the tuning database">
          {(items) =>
            items.length > 0 ? (
              <EntryTable entries={items} />
            ) : path === "/tuning" ? (
              <Empty title="Nothing is known yet.">
                <p>
                  A build that asks for <code>tune: fleet</code> has devices try kernels;{" "}
                  <code>pock tuning import</code> brings a file.
                </p>
              </Empty>
            ) : (
              <Empty title="Nothing like this is known." />
            )
          }
        </Loaded>
        <More more={entries.more} />
      </Section>
      <Searches allowed={allowed} />
      <NotBelieved allowed={allowed} />
    </AdminPage>
  );
}

const TONES: Readonly<Record<Tuning["state"], Tone>> = {
  building: "active",
  measuring: "active",
  succeeded: "good",
  failed: "bad",
  cancelled: "quiet",
};

function Searches({ allowed }: { readonly allowed: boolean }) {
  const { of, more } = useList<Tuning>(allowed ? "/tuning/jobs" : null, EVERY_MS);
  return (
    <Section
      title="Searches for more"
      note="Each is for the workloads of a build that were not known."
      command={curl("/tuning/jobs")}
    >
      <Loaded of={of} what="searches">
        {(tunings) =>
          tunings.length === 0 ? (
            <Empty title="No build has asked for one." />
          ) : (
            <TuningTable tunings={tunings} reload={of.reload} />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
}

function TuningTable({ tunings, reload }: { readonly tunings: readonly Tuning[]; readonly reload: () => void }) {
  return (
    <TableFrame label="Searches for more">
      <table>
        <thead>
          <tr>
            <th scope="col">For the build</th>
            <th scope="col">Target</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Tried
            </th>
            <th scope="col" class="number">
              Decided
            </th>
            <th scope="col">Begun</th>
            <th scope="col">
              <span class="visually-hidden">Cancel</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tunings.map((tuning) => (
            <tr key={tuning.id}>
              <td class="wrap">
                <a href={link.build(tuning.build_id)}>{tuning.build_name}</a>
              </td>
              <td>{tuning.target}</td>
              <td class="wrap">
                <Badge tone={TONES[tuning.state]} text={tuning.state} />
                {tuning.failure && <span class="under">{tuning.failure.detail}</span>}
              </td>
              <td class="number">
                {format.count(tuning.tried)}
                {tuning.finished_at === null && tuning.trying > 0 && (
                  <span class="faint"> + {format.count(tuning.trying)} now</span>
                )}
              </td>
              <td class="number">{format.count(tuning.decided)}</td>
              <td>
                <Ago time={tuning.created_at} />
              </td>
              <td class="row-action">
                {tuning.finished_at === null && (
                  <ConfirmButton
                    quiet
                    verb="Cancel"
                    doing="Cancelling"
                    what={`the search for ${tuning.build_name}`}
                    warning="Devices try no more kernels for it. What was decided stays."
                    keep="Leave it"
                    act={() => post<Tuning>(`/tuning/jobs/${tuning.id}/cancel`, {})}
                    why={whyNot("builds:write")}
                    onDone={reload}
                  />
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function NotBelieved({ allowed }: { readonly allowed: boolean }) {
  const { of, more } = useList<Distrust>(allowed ? "/tuning/devices" : null, EVERY_MS);
  return (
    <Section
      title="Devices that are not believed"
      note="Their measurements do not count. Forget what one measured, and it is believed again."
      command={curl("/tuning/devices")}
    >
      <Loaded of={of} what="devices">
        {(devices) =>
          devices.length === 0 ? (
            <Empty title="All are believed." />
          ) : (
            <DistrustTable devices={devices} reload={of.reload} />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
}

function DistrustTable({ devices, reload }: { readonly devices: readonly Distrust[]; readonly reload: () => void }) {
  return (
    <TableFrame label="Devices that are not believed">
      <table>
        <thead>
          <tr>
            <th scope="col">Device</th>
            <th scope="col">Why</th>
            <th scope="col">Run</th>
            <th scope="col">Since</th>
            <th scope="col">
              <span class="visually-hidden">Forget</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {devices.map(({ device_id, device_name, reason, run_id, since }) => (
            <tr key={device_id}>
              <td class="wrap">
                <a href={link.device(device_id)}>{device_name}</a>
              </td>
              <td class="wrap">{reason}</td>
              <td>
                <a href={link.run(run_id)}>{format.shortId(run_id)}</a>
              </td>
              <td>
                <Ago time={since} />
              </td>
              <td class="row-action">
                <ConfirmButton
                  quiet
                  verb="Forget"
                  doing="Forgetting"
                  what={`what ${device_name} measured`}
                  warning="What rested on its word is unknown again, and the device is believed from now on."
                  keep="Leave it"
                  act={() => send(`/tuning/devices/${device_id}`, { method: "DELETE" })}
                  why={whyNot("devices:admin")}
                  onDone={reload}
                />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
