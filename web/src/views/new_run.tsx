/** The form that starts a run of a finished build on a device. */

import { useState } from "preact/hooks";
import { post, type Problem } from "../api/client";
import type { Build, Dataset, Device, Run } from "../api/types";
import { CopyButton } from "../components/copy";
import { Empty, Loaded, ProblemBox, Section } from "../components/page";
import { curlPost } from "../commands";
import * as format from "../format";
import { asProblem, useList } from "../data";
import { Needs } from "../permission";
import { link } from "../router";

export function NewRun({ build }: { readonly build: Build }) {
  const { of: devices } = useList<Device>("/devices", 5000);
  const { of: datasets } = useList<Dataset>("/datasets", 10_000);
  return (
    <Section title="Start a run">
      <Loaded of={devices} what="devices">
        {(known) => (
          <Loaded of={datasets} what="datasets">
            {(data) => {
              const usable = known.filter((device) => device.state !== "revoked" && device.target === build.target);
              if (usable.length === 0) return <Empty title={`No device of target ${build.target} is enrolled.`} />;
              if (data.length === 0) return <Empty title="No dataset has been uploaded yet." />;
              return (
                <Needs scope="runs:write">
                  <RunForm build={build} devices={usable} datasets={data} />
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
  readonly datasets: readonly Dataset[];
}

function RunForm({ build, devices, datasets }: FormProps) {
  const [device, setDevice] = useState(devices[0]?.id ?? "");
  const [train, setTrain] = useState(datasets[0]?.id ?? "");
  const [evaluation, setEvaluation] = useState("");
  const [steps, setSteps] = useState(100);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const body = {
    build_id: build.id,
    device_id: device,
    dataset_id: train,
    ...(evaluation === "" ? {} : { eval_dataset_id: evaluation }),
    entry: "train",
    steps,
  };
  const submit = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    post<Run>("/runs", body)
      .then(
        (run) => {
          location.hash = link.run(run.id);
        },
        (error: unknown) => setProblem(asProblem(error)),
      )
      .finally(() => setBusy(false));
  };
  const options = datasets.map((dataset) => (
    <option key={dataset.id} value={dataset.id}>
      {dataset.name} ({format.count(dataset.samples)} samples)
    </option>
  ));
  return (
    <form onSubmit={submit} class="form-row">
      <label class="field">
        <span>Device</span>
        <select name="device" value={device} onChange={(event) => setDevice(event.currentTarget.value)}>
          {devices.map((item) => (
            <option key={item.id} value={item.id}>
              {item.name} ({item.state})
            </option>
          ))}
        </select>
      </label>
      <label class="field">
        <span>Training data</span>
        <select name="dataset" value={train} onChange={(event) => setTrain(event.currentTarget.value)}>
          {options}
        </select>
      </label>
      <label class="field">
        <span>Evaluation data</span>
        <select name="evaluation" value={evaluation} onChange={(event) => setEvaluation(event.currentTarget.value)}>
          <option value="">none</option>
          {options}
        </select>
      </label>
      <label class="field">
        <span>Steps</span>
        <input
          type="number"
          name="steps"
          min={1}
          required
          value={steps}
          onInput={(event) => setSteps(Number(event.currentTarget.value))}
        />
      </label>
      {problem && <ProblemBox problem={problem} />}
      <div class="actions">
        <button type="submit" class="button button-primary" disabled={busy}>
          {busy ? "Starting …" : "Start run"}
        </button>
        <CopyButton text={curlPost("/runs", body)} of="starting this run" />
      </div>
    </form>
  );
}
