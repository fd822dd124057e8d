/** The form that brings a release to devices. It says how many, and by which steps, before it asks for it. */

import type { Ref } from "preact";
import { useState } from "preact/hooks";
import { post, type Problem } from "../../../api/client";
import { saidOf } from "../../../api/problem";
import type { AgentRelease, DeviceTotals, Rollout } from "../../../api/types";
import { curl, curlPost } from "../../../commands";
import { CopyButton } from "../../../components/copy";
import { Dialog } from "../../../components/dialog";
import { Count, WithError } from "../../../components/fields";
import { ProblemBox } from "../../../components/page";
import { asProblem, useResource } from "../../../data";
import { useSettled } from "../../../hooks";
import { Needs } from "../../../permission";
import { address, go, setQuery, to } from "../../../router";
import { AT_FIRST, isExpired, orderOf, reachOf, stagesOf, totalsPath, type Wishes } from "./order";

interface NewProps {
  /** The newest. */
  readonly releases: readonly AgentRelease[];
  /** The field of the release, to which a row of their table leads. */
  readonly field: Ref<HTMLSelectElement>;
}

/** The release of the address, which may be an old one; otherwise the newest that can be rolled out. */
function useRelease(releases: readonly AgentRelease[]): AgentRelease | null {
  const id = address.value?.query.get("release") ?? null;
  const known = releases.find((one) => one.id === id) ?? null;
  const old = useResource<AgentRelease>(
    id !== null && known === null ? `/agent-releases/${encodeURIComponent(id)}` : null,
  );
  return known ?? (id === null ? null : old.data) ?? releases.find((one) => !isExpired(one)) ?? null;
}

const FIELDS = ["release_id", "on", "canary", "stages", "healthy_seconds", "check_in_seconds", "max_failed"];

export function NewRollout({ releases, field }: NewProps) {
  const release = useRelease(releases);
  const [wishes, setWishes] = useState(AT_FIRST);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [asking, setAsking] = useState(false);
  const [busy, setBusy] = useState(false);
  const wish = (change: Partial<Wishes>) => {
    setProblem(null);
    setWishes({ ...wishes, ...change });
  };

  const { stages, problem: stagesProblem } = stagesOf(wishes.stages);
  const counted = totalsPath(wishes.on) ?? "";
  const settled = useSettled(counted);
  const totals = useResource<DeviceTotals>(settled || null);
  const current = settled === counted ? totals.data : null;
  const reach = release && current && stagesProblem === null ? reachOf(current, release.version, wishes, stages) : null;
  const order = orderOf(release?.id ?? "", wishes, stages);
  const said = (name: string) => saidOf(problem, name);

  const start = () => {
    setBusy(true);
    post<Rollout>("/rollouts", order)
      .then(
        ({ id }) => go(to(["admin", "rollouts", id])),
        (error: unknown) => {
          setAsking(false);
          setProblem(asProblem(error));
        },
      )
      .finally(() => setBusy(false));
  };

  return (
    <Needs scope="devices:admin">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setAsking(true);
        }}
      >
        <div class="form-row">
          <WithError
            text={said("release_id") ?? (release && isExpired(release) ? "It has expired: sign it anew." : null)}
          >
            <label class="field">
              <span>Release</span>
              <select
                ref={field}
                value={release?.id ?? ""}
                onChange={(event) => setQuery({ release: event.currentTarget.value })}
              >
                {withChosen(releases, release).map((one) => (
                  <option key={one.id} value={one.id} disabled={isExpired(one)}>
                    agent {one.version}
                    {isExpired(one) && " (expired)"}
                  </option>
                ))}
              </select>
            </label>
          </WithError>
          <WithError text={said("on") ?? (settled === counted ? (totals.problem?.detail ?? null) : null)}>
            <label class="field">
              <span>Devices, by a selector (*: all)</span>
              <input
                type="text"
                class="mono"
                placeholder="pool=desk,ram>=2GiB"
                required
                maxLength={1900}
                value={wishes.on}
                onInput={(event) => wish({ on: event.currentTarget.value })}
              />
            </label>
          </WithError>
          <WithError text={said("canary")}>
            <Count
              name="Devices that go first (0: none)"
              value={wishes.canary}
              min={0}
              max={1000}
              onCount={(canary) => wish({ canary })}
            />
          </WithError>
          <WithError text={stagesProblem ?? said("stages")}>
            <label class="field">
              <span>Stages, percent of the devices</span>
              <input
                type="text"
                required
                maxLength={200}
                value={wishes.stages}
                onInput={(event) => wish({ stages: event.currentTarget.value })}
              />
            </label>
          </WithError>
          <WithError text={said("max_failed")}>
            <Count
              name="Stop with more failed than"
              value={wishes.maxFailed}
              min={0}
              max={100_000}
              onCount={(maxFailed) => wish({ maxFailed })}
            />
          </WithError>
          <WithError text={said("healthy_seconds")}>
            <Count
              name="Seconds that a device has to last"
              value={wishes.healthy}
              min={1}
              max={86_400}
              onCount={(healthy) => wish({ healthy })}
            />
          </WithError>
          <WithError text={said("check_in_seconds")}>
            <Count
              name="Seconds until it has to be heard of"
              value={wishes.checkIn}
              min={5}
              max={3600}
              onCount={(checkIn) => wish({ checkIn })}
            />
          </WithError>
        </div>
        <p class="rollout-reach">
          <span role="status">
            {counted === ""
              ? "Say which devices: they are counted here."
              : reach
                ? (reach.problem ?? reach.text)
                : totals.problem === null && stagesProblem === null && "Counting devices …"}
          </span>
          {reach && <CopyButton text={curl(settled)} of="the devices that it reaches" />}
        </p>
        {problem && saidOf(problem, ...FIELDS) === null && <ProblemBox problem={problem} />}
        <div class="actions">
          <button
            type="submit"
            class="button button-primary"
            disabled={busy || reach === null || reach.problem !== null || (release !== null && isExpired(release))}
          >
            Start the rollout …
          </button>
          <CopyButton text={curlPost("/rollouts", order)} of="starting this rollout" />
        </div>
      </form>
      {asking && release && reach && (
        <Dialog title={`Roll out agent ${release.version}?`} onClose={() => !busy && setAsking(false)}>
          <p>It replaces the agent of {reach.text} Devices whose agent cannot replace itself take no part.</p>
          <p>
            Chosen by <span class="mono">{wishes.on.trim()}</span>. It stops by itself with more than {wishes.maxFailed}{" "}
            failed.
          </p>
          <div class="actions">
            <button type="button" class="button button-danger" disabled={busy} onClick={start}>
              {busy ? "Starting …" : "Start it"}
            </button>
            <button type="button" class="button" disabled={busy} onClick={() => setAsking(false)}>
              Leave it
            </button>
          </div>
        </Dialog>
      )}
    </Needs>
  );
}

/** The releases with the chosen one, which may be older. */
function withChosen(releases: readonly AgentRelease[], chosen: AgentRelease | null): readonly AgentRelease[] {
  return chosen === null || releases.some(({ id }) => id === chosen.id) ? releases : [...releases, chosen];
}
