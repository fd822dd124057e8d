/** When a device may work: its own rules and its pool's, and the buttons that change them. */

import { useState } from "preact/hooks";
import type { Device, DevicePolicy } from "../../../api/types";
import { curl } from "../../../commands";
import { Facts } from "../../../components/figures";
import { Loaded, Section } from "../../../components/page";
import type { Resource } from "../../../data";
import { whyNot } from "../../../permission";
import { RulesDialog } from "./dialog";
import { ofDevice, ofPool, type Policy, policyRows, type Seen, type Subject } from "./rules";
import "../../../styles/rules.css";

interface SectionProps {
  readonly device: Device;
  readonly policy: Resource<DevicePolicy>;
}

export function PolicySection({ device, policy }: SectionProps) {
  const [changed, setChanged] = useState<{ readonly subject: Subject; readonly seen: Seen } | null>(null);
  const refused = whyNot("devices:admin");
  const close = () => setChanged(null);
  return (
    <Section title="When it may work" command={curl(`/devices/${device.id}/policy`)}>
      <Loaded of={policy} what="the policies">
        {({ policy: own, version, pool, pool_policy: pools, pool_version, known }) => (
          <>
            {!own && !pools && <p class="note">Always: neither the device nor pool {pool} has rules.</p>}
            {refused && <p class="needs-reason">{refused}</p>}
            <Rules
              title="Its own rules"
              policy={own ?? null}
              why={refused ?? whyNotOwn(device)}
              onChange={() =>
                setChanged({
                  subject: ofDevice(device.id, device.name),
                  seen: { policy: own ?? null, version },
                })
              }
            />
            <Rules
              title={`Rules of pool ${pool}`}
              policy={pools ?? null}
              why={refused}
              onChange={() =>
                setChanged({ subject: ofPool(pool), seen: { policy: pools ?? null, version: pool_version } })
              }
            />
            {!known && <p class="note">The device has not told yet that it keeps these.</p>}
          </>
        )}
      </Loaded>
      {changed && (
        <RulesDialog
          {...changed}
          onClose={close}
          onDone={() => {
            close();
            policy.reload();
          }}
        />
      )}
    </Section>
  );
}

/** Why the device cannot have rules of its own, or null. */
function whyNotOwn({ state, facts, agent_version: agent }: Device): string | null {
  if (state === "revoked") return "It was revoked.";
  const knows = Array.isArray(facts.features) && facts.features.includes("policies");
  return knows ? null : `Agent ${agent ?? "of an unknown version"} follows no rules of the service: update it.`;
}

interface RulesProps {
  readonly title: string;
  readonly policy: Policy | null;
  /** Why they cannot be changed, or null. */
  readonly why: string | null;
  readonly onChange: () => void;
}

function Rules({ title, policy, why, onChange }: RulesProps) {
  const rows = policy === null ? [] : policyRows(policy);
  const verb = policy === null ? "Set rules" : "Change";
  return (
    <div class="device-rules">
      <div class="rules-head">
        <h3>{title}</h3>
        <button
          type="button"
          class="button"
          aria-label={`${verb}: ${title}`}
          disabled={why !== null}
          title={why ?? ""}
          onClick={onChange}
        >
          {verb} …
        </button>
      </div>
      {rows.length === 0 ? (
        <p class="note">{policy === null ? "None." : "They forbid nothing."}</p>
      ) : (
        <Facts items={rows} />
      )}
    </div>
  );
}
