/** What can be changed about one device: its name here, the rest as for many. One that was revoked stays as it is. */

import { useState } from "preact/hooks";
import { send } from "../../../api/client";
import type { Device } from "../../../api/types";
import { ProblemBox, Section } from "../../../components/page";
import { asProblem } from "../../../data";
import { Needs } from "../../../permission";
import { ACTIONS, BulkDialog, type Kind } from "../bulk/bulk";

interface ChangesProps {
  readonly device: Device;
  readonly onChanged: () => void;
}

export function DeviceChanges({ device, onChanged }: ChangesProps) {
  const [name, setName] = useState(device.name);
  const [kind, setKind] = useState<Kind | null>(null);
  const [failure, setFailure] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const rename = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setFailure(null);
    const headers = { "Content-Type": "application/json" };
    send(`/devices/${device.id}`, { method: "PATCH", headers, body: JSON.stringify({ name: name.trim() }) })
      .then(onChanged, setFailure)
      .finally(() => setBusy(false));
  };
  const same = name.trim() === "" || name.trim() === device.name;
  // The dialog tells how a revocation went, when there is nothing left to change.
  return (
    <>
      {device.state !== "revoked" && (
        <Section title="Change" note="Runs keep the name that the device had when they were asked for.">
          <Needs scope="devices:admin">
            <form class="device-changes" onSubmit={rename}>
              <label class="field">
                <span>Name</span>
                <input
                  type="text"
                  value={name}
                  maxLength={200}
                  onInput={(event) => setName(event.currentTarget.value)}
                />
              </label>
              <button type="submit" class="button" disabled={same || busy}>
                Rename
              </button>
              {(Object.keys(ACTIONS) as Kind[]).map((one) => (
                <button
                  key={one}
                  type="button"
                  class={one === "revoke" ? "button button-danger" : "button"}
                  onClick={() => setKind(one)}
                >
                  {ACTIONS[one].button} …
                </button>
              ))}
            </form>
            {failure !== null && <ProblemBox problem={asProblem(failure)} />}
          </Needs>
        </Section>
      )}
      {kind && <BulkDialog kind={kind} devices={[device]} close={() => setKind(null)} onDone={() => onChanged()} />}
    </>
  );
}
