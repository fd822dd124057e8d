/** The form that starts runs of a finished build, on one device or several. */

import { useState } from "preact/hooks";
import { post } from "../../api/client";
import type { Artifact, Build, Dataset, Device, Run } from "../../api/types";
import { CopyButton } from "../../components/copy";
import { Count } from "../../components/fields";
import { Empty, Loaded, ProblemBox, Section } from "../../components/page";
import { curlPost } from "../../commands";
import { WaitsNote } from "../../components/waits";
import { asProblem, useList, useResource } from "../../data";
import { fitOf } from "../../fit";
import * as format from "../../format";
import { versionText } from "../../names";
import { Needs } from "../../permission";
import { usePosts } from "../../posts";
import { link } from "../../router";

export function NewRun({ build }: { readonly build: Build }) {
  const { of: devices, more } = useList<Device>(`/devices?on=${encodeURIComponent(`target=${build.target}`)}`, 15_000);
  const { of: datasets } = useList<Dataset>("/datasets", 30_000);
  const artifact = useResource<Artifact>(build.artifact_digest ? `/artifacts/${build.artifact_digest}` : null);
  return (
    <Section title="Start runs">
      <Loaded of={devices} what="devices">
        {(known) => (
          <Loaded of={datasets} what="datasets">
            {(data) => {
              const usable = known.filter((device) => device.state !== "revoked");
              if (usable.length === 0)
                return (
                  <Empty title={`No device of target ${build.target} is enrolled.`}>
                    <p>
                      <a href="#/fleet?enrol=1">Enrol a device</a>, and come back.
                    </p>
                  </Empty>
                );
              if (data.length === 0)
                return (
                  <Empty title="No dataset has been uploaded yet.">
                    <p>
                      <a href="#/datasets?upload=1">Upload data</a>, and come back.
                    </p>
                  </Empty>
                );
              return (
                <Needs scope="runs:write">
                  <RunForm build={build} devices={usable} more={more} datasets={data} artifact={artifact.data} />
                </Needs>
              );
            }}
          </Loaded>
        )}
      </Loaded>
    </Section>
  );
}

interface FormProps {
  readonly build: Build;
  readonly devices: readonly Device[];
  readonly more: (() => void) | null;
  readonly datasets: readonly Dataset[];
  /** What the build made, which says what samples must be like; null until it is known. */
  readonly artifact: Artifact | null;
}

interface Wishes {
  readonly train: string | null;
  readonly evaluation: string;
  readonly steps: number;
  readonly seed: number;
  readonly weights: boolean;
  readonly profile: boolean;
  /** Percent of the training data that is not trained on; 0 for none. */
  readonly heldOut: number;
  readonly patience: number;
  /** Minutes; empty for the service's own limit. */
  readonly minutes: string;
}

const AT_FIRST: Wishes = {
  train: null,
  evaluation: "",
  steps: 100,
  seed: 0,
  weights: true,
  profile: false,
  heldOut: 0,
  patience: 0,
  minutes: "",
};

const reachable = (device: Device) => device.state === "online" || device.state === "busy";

function RunForm({ build, devices, more, datasets, artifact }: FormProps) {
  const [wishes, setWishes] = useState(AT_FIRST);
  const [marked, setMarked] = useState<ReadonlySet<string> | null>(null);
  const { outcomes, busy, waits, go } = usePosts<Device, Run>();
  const wish = (change: Partial<Wishes>) => setWishes({ ...wishes, ...change });
  const fits = datasets.map((dataset) => ({ dataset, why: artifact ? fitOf(dataset, artifact.inputs) : null }));
  const train = wishes.train ?? fits.find(({ why }) => why === null)?.dataset.id ?? "";
  const first = devices.find((device) => device.state === "online") ?? devices.find(reachable);
  const chosen = devices.filter((device) => (marked ? marked.has(device.id) : device === first));
  const order = (device: string) => orderOf(build.id, device, { ...wishes, train });

  const submit = async (event: Event) => {
    event.preventDefault();
    const found = await go(chosen, (device) => post<Run>("/runs", order(device.id)));
    const [only] = found;
    if (found.length === 1 && only?.made) location.hash = link.run(only.made.id);
  };

  return (
    <form onSubmit={(event) => void submit(event)}>
      <Devices devices={devices} chosen={chosen} onChosen={setMarked} more={more} />
      <div class="form-row">
        <DataChoice name="Training data" value={train} fits={fits} onChoice={(id) => wish({ train: id })} />
        <DataChoice
          name="Evaluation data"
          value={wishes.evaluation}
          fits={fits}
          none="none"
          onChoice={(id) => wish({ evaluation: id })}
        />
        <Count name="Steps" value={wishes.steps} min={1} onCount={(steps) => wish({ steps })} />
        <Count name="Seed" value={wishes.seed} min={0} onCount={(seed) => wish({ seed })} />
      </div>
      <details class="more-wishes">
        <summary>More</summary>
        <div class="form-row">
          <Count
            name="Percent held out for evaluation"
            value={wishes.heldOut}
            min={0}
            max={90}
            onCount={(heldOut) => wish({ heldOut })}
          />
          <Count
            name="End after so many evaluations without a better one (0: never)"
            value={wishes.patience}
            min={0}
            onCount={(patience) => wish({ patience })}
          />
          <label class="field">
            <span>Longest time, minutes (empty: the service's own)</span>
            <input
              type="number"
              min={1}
              value={wishes.minutes}
              onInput={(event) => wish({ minutes: event.currentTarget.value })}
            />
          </label>
          <label class="check">
            <input
              type="checkbox"
              checked={wishes.profile}
              onChange={(event) => wish({ profile: event.currentTarget.checked })}
            />
            Time each operator (steps take a little longer)
          </label>
        </div>
      </details>
      <label class="check">
        <input
          type="checkbox"
          checked={wishes.weights}
          onChange={(event) => wish({ weights: event.currentTarget.checked })}
        />
        Keep the trained weights, to download them
      </label>
      <div class="actions">
        <button type="submit" class="button button-primary" disabled={busy || chosen.length === 0 || train === ""}>
          {busy ? "Starting …" : chosen.length > 1 ? `Start ${chosen.length} runs` : "Start run"}
        </button>
        <CopyButton text={curlPost("/runs", order(chosen[0]?.id ?? "DEVICE_ID"))} of="starting this run" />
      </div>
      {train === "" && <p class="note">No dataset has the inputs that this build needs.</p>}
      <WaitsNote seconds={waits} />
      {outcomes.map(({ of: device, made: run, error }) =>
        run ? (
          <p key={device.id}>
            <a href={link.run(run.id)}>{device.name}</a>: {run.state}
          </p>
        ) : (
          <ProblemBox key={device.id} problem={asProblem(error)} />
        ),
      )}
    </form>
  );
}

function orderOf(build: string, device: string, wishes: Wishes): Record<string, unknown> {
  const minutes = Number(wishes.minutes);
  return {
    build_id: build,
    device_id: device,
    dataset_id: wishes.train,
    ...(wishes.evaluation === "" ? {} : { eval_dataset_id: wishes.evaluation }),
    entry: "train",
    steps: wishes.steps,
    seed: wishes.seed,
    save_weights: wishes.weights,
    ...(wishes.profile ? { profile: true } : {}),
    ...(wishes.heldOut > 0 ? { held_out: { share: wishes.heldOut / 100, patience: wishes.patience } } : {}),
    ...(minutes > 0 ? { deadline_seconds: Math.round(minutes * 60) } : {}),
  };
}

interface DevicesProps {
  readonly devices: readonly Device[];
  readonly chosen: readonly Device[];
  readonly onChosen: (ids: ReadonlySet<string>) => void;
  readonly more: (() => void) | null;
}

/** Those that answer come first; one that does not takes its run when it is back. */
function Devices({ devices, chosen, onChosen, more }: DevicesProps) {
  const [sought, setSought] = useState("");
  const ordered = [...devices.filter(reachable), ...devices.filter((device) => !reachable(device))];
  const shown = ordered.filter((device) => device.name.includes(sought.trim()));
  const ids = new Set(chosen.map((device) => device.id));
  const toggle = (id: string) => {
    const next = new Set(ids);
    if (!next.delete(id)) next.add(id);
    onChosen(next);
  };
  return (
    <fieldset class="targets run-devices">
      <legend>
        Devices ({chosen.length} of {devices.length}
        {more && "+"} chosen)
      </legend>
      {devices.length > 8 && (
        <input
          type="search"
          aria-label="Search devices"
          placeholder="a part of the name"
          value={sought}
          onInput={(event) => setSought(event.currentTarget.value)}
        />
      )}
      {shown.map((device) => (
        <label key={device.id} class="check">
          <input type="checkbox" checked={ids.has(device.id)} onChange={() => toggle(device.id)} />
          {device.name} <span class="faint">{device.state}</span>
        </label>
      ))}
      {more && (
        <button type="button" class="button" onClick={more}>
          Show more devices
        </button>
      )}
    </fieldset>
  );
}

interface DataChoiceProps {
  readonly name: string;
  readonly value: string;
  readonly fits: readonly { readonly dataset: Dataset; readonly why: string | null }[];
  readonly none?: string;
  readonly onChoice: (id: string) => void;
}

/** What fits comes first; what does not says why, and cannot be chosen. */
export function DataChoice({ name, value, fits, none, onChoice }: DataChoiceProps) {
  const ordered = [...fits.filter(({ why }) => why === null), ...fits.filter(({ why }) => why !== null)];
  return (
    <label class="field">
      <span>{name}</span>
      <select value={value} onChange={(event) => onChoice(event.currentTarget.value)}>
        {none !== undefined && <option value="">{none}</option>}
        {ordered.map(({ dataset, why }) => (
          <option key={dataset.id} value={dataset.id} disabled={why !== null}>
            {versionText(dataset)} ({why ?? `${format.count(dataset.samples)} samples`})
          </option>
        ))}
      </select>
    </label>
  );
}
