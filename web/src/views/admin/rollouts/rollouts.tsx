/** Rollouts of the agent, and the releases that they bring. */

import { useRef } from "preact/hooks";
import type { AgentRelease, Rollout } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago, Until } from "../../../components/ago";
import { DeleteButton } from "../../../components/delete_button";
import { Empty, Loaded, Section, TableFrame } from "../../../components/page";
import { useList } from "../../../data";
import * as format from "../../../format";
import { whyNot } from "../../../permission";
import { setQuery, to } from "../../../router";
import { More } from "../../tables";
import { Badge } from "../../../components/tone_badge";
import { AdminPage } from "../frame";
import { deviceCount, ROLLOUT_TONES } from "./parts";
import { NewRollout } from "./new_rollout";
import { isExpired } from "./order";

export function RolloutsView() {
  const allowed = whyNot("read") === null;
  const rollouts = useList<Rollout>(allowed ? "/rollouts" : null, 10_000);
  const releases = useList<AgentRelease>(allowed ? "/agent-releases" : null, 30_000);
  const field = useRef<HTMLSelectElement>(null);
  const rollOut = (release: AgentRelease) => {
    setQuery({ release: release.id });
    field.current?.focus();
  };
  return (
    <AdminPage part="Rollouts" command={curl("/rollouts")}>
      <Section title="All rollouts" note="Releases of the agent on their way to devices; newest first.">
        <Loaded of={rollouts.of} what="rollouts">
          {(items) =>
            items.length === 0 ? <Empty title="Nothing was rolled out yet." /> : <RolloutTable rollouts={items} />
          }
        </Loaded>
        <More more={rollouts.more} />
      </Section>
      <Section title="Start a rollout" note="It brings a release to devices by steps, and stops when too many fail.">
        <Loaded of={releases.of} what="releases">
          {(items) =>
            items.length === 0 ? (
              <Empty title="There is no release to roll out." />
            ) : (
              <NewRollout releases={items} field={field} />
            )
          }
        </Loaded>
      </Section>
      <Section
        title="Releases of the agent"
        note="Signed by root keys. A rollout brings one to devices."
        command={curl("/agent-releases")}
      >
        <Loaded of={releases.of} what="releases">
          {(items) =>
            items.length === 0 ? (
              <Empty title="No release is kept." />
            ) : (
              <ReleaseTable releases={items} reload={releases.of.reload} rollOut={rollOut} />
            )
          }
        </Loaded>
        <More more={releases.more} />
      </Section>
    </AdminPage>
  );
}

function RolloutTable({ rollouts }: { readonly rollouts: readonly Rollout[] }) {
  return (
    <TableFrame label="Rollouts">
      <table>
        <thead>
          <tr>
            <th scope="col">Release</th>
            <th scope="col">To</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Healthy
            </th>
            <th scope="col" class="number">
              Failed
            </th>
            <th scope="col">Begun</th>
          </tr>
        </thead>
        <tbody>
          {rollouts.map((rollout) => (
            <tr key={rollout.id}>
              <td>
                <a href={to(["admin", "rollouts", rollout.id])}>agent {rollout.version}</a>{" "}
                <span class="faint mono">{format.shortId(rollout.id)}</span>
              </td>
              <td class="wrap mono">{rollout.on}</td>
              <td class="wrap">
                <Badge tone={ROLLOUT_TONES[rollout.state]} text={rollout.state} />
                {rollout.reason && <span class="under">{rollout.reason}</span>}
              </td>
              <td class="number">
                {format.count(deviceCount(rollout, ["healthy"]))} of {format.count(deviceCount(rollout))}
              </td>
              <td class="number">{format.count(deviceCount(rollout, ["failed", "rolled_back"]))}</td>
              <td>
                <Ago time={rollout.started_at ?? rollout.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

interface ReleasesProps {
  readonly releases: readonly AgentRelease[];
  readonly reload: () => void;
  /** Fills the form with one. */
  readonly rollOut: (release: AgentRelease) => void;
}

function ReleaseTable({ releases, reload, rollOut }: ReleasesProps) {
  return (
    <TableFrame label="Releases of the agent">
      <table>
        <thead>
          <tr>
            <th scope="col">Version</th>
            <th scope="col">Platforms</th>
            <th scope="col">Notes</th>
            <th scope="col">Signed</th>
            <th scope="col">Expires</th>
            <th scope="col">
              <span class="visually-hidden">What to do with it</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {releases.map((release) => (
            <tr key={release.id}>
              <td>{release.version}</td>
              <td class="wrap">{platformsText(release)}</td>
              <td class="wrap">
                {release.notes || format.NOTHING}
                {remarksText(release) && <span class="under">{remarksText(release)}</span>}
              </td>
              <td>
                <Ago time={release.issued_at} />
              </td>
              <td>
                <Until time={release.expires_at} />
              </td>
              <td class="row-action">
                <span class="row-actions">
                  <RollOutButton release={release} onPress={() => rollOut(release)} />
                  <DeleteButton
                    quiet
                    what={`agent ${release.version}`}
                    warning="No rollout can bring it to devices any more; devices that run it keep it."
                    path={`/agent-releases/${release.id}`}
                    why={whyNot("devices:admin")}
                    onDeleted={reload}
                  />
                </span>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function RollOutButton({ release, onPress }: { readonly release: AgentRelease; readonly onPress: () => void }) {
  const why = whyNot("devices:admin") ?? (isExpired(release) ? "It has expired: sign it anew." : null);
  return (
    <button
      type="button"
      class="button button-quiet"
      aria-label={`Roll out agent ${release.version}`}
      disabled={why !== null}
      title={why ?? ""}
      onClick={onPress}
    >
      Roll out …
    </button>
  );
}

function platformsText({ files }: AgentRelease): string {
  return Object.entries(files)
    .map(([platform, { size }]) => `${platform} (${format.bytes(size)})`)
    .join(", ");
}

function remarksText({ downgrade, revert }: AgentRelease): string {
  const told = [
    downgrade && "newer agents may go back to it",
    !revert && "a rollout of it cannot be rolled back",
  ].filter(Boolean);
  return told.join("; ");
}
