/** The form that starts a campaign. It says how many runs that will be before it asks for them. */

import * as format from "../../format";
import { useEffect, useState } from "preact/hooks";
import { get, post, type Problem } from "../../api/client";
import { saidOf } from "../../api/problem";
import type { Artifact, Build, Campaign, Dataset, Device, DeviceTotals } from "../../api/types";
import { CopyButton } from "../../components/copy";
import { Count, WithError } from "../../components/fields";
import { Loaded, Page, ProblemBox, Section } from "../../components/page";
import { curlPost } from "../../commands";
import { asProblem, useList, useResource } from "../../data";
import { fitOf } from "../../fit";
import { useSettled } from "../../hooks";
import { Needs } from "../../permission";
import { address, go, link, setQuery } from "../../router";
import { DataChoice } from "../run/new_run";
import { Builds, Devices } from "./choose";
import { AT_FIRST, orderOf, seedsOf, sizeOf, type Targets, targetsOf, totalsPath, type Wishes } from "./order";

const EVERY_MS = 30_000;

export function NewCampaign() {
  const datasets = useList<Dataset>("/datasets", EVERY_MS).of;
  return (
    <Page title="Start a campaign" back={{ href: "#/campaigns", text: "All campaigns" }}>
      <Section title="What to run" note="Every build on every chosen device of its target, once with each seed.">
        <Loaded of={datasets} what="datasets">
          {(known) => (
            <Needs scope="runs:write">
              <Form datasets={known} />
            </Needs>
          )}
        </Loaded>
      </Section>
    </Page>
  );
}

/** The builds of the address, `?builds=ID,ID`: a link can bring some, and going back finds those that were ticked. */
function useChosenBuilds(): [readonly Build[], (builds: readonly Build[]) => void] {
  const [builds, setBuilds] = useState<readonly Build[]>([]);
  useEffect(() => {
    const abort = new AbortController();
    const ids = (address.peek()?.query.get("builds") ?? "").split(",").filter(Boolean).slice(0, 100);
    const found = ids.map((id) => get<Build>(`/builds/${encodeURIComponent(id)}`, abort.signal).catch(() => null));
    void Promise.all(found).then((all) => {
      if (!abort.signal.aborted && ids.length > 0) setBuilds(all.filter((one) => one !== null));
    });
    return () => abort.abort();
  }, []);
  const choose = (chosen: readonly Build[]) => {
    setBuilds(chosen);
    setQuery({ builds: chosen.map(({ id }) => id).join(",") });
  };
  return [builds, choose];
}

function tickedTargets(devices: readonly Device[]): Targets {
  const found = new Map<string, number>();
  for (const { target } of devices) if (target) found.set(target, (found.get(target) ?? 0) + 1);
  return found;
}

function Form({ datasets }: { readonly datasets: readonly Dataset[] }) {
  const [builds, setBuilds] = useChosenBuilds();
  const [wishes, setWishes] = useState(AT_FIRST);
  const [ticked, setTicked] = useState<readonly Device[]>([]);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const wish = (change: Partial<Wishes>) => setWishes({ ...wishes, ...change });

  const digest = builds.find(({ artifact_digest: made }) => made !== null)?.artifact_digest;
  const artifact = useResource<Artifact>(digest ? `/artifacts/${digest}` : null);
  const fits = datasets.map((dataset) => ({
    dataset,
    why: artifact.data ? fitOf(dataset, artifact.data.inputs) : dataset.device_id ? "stays on a device" : null,
  }));
  const train = wishes.train ?? fits.find(({ why }) => why === null)?.dataset.id ?? "";
  const { seeds, problem: seedProblem } = seedsOf(wishes.seeds);
  const counting = useSettled(totalsPath(wishes) ?? "");
  const totals = useResource<DeviceTotals>(counting || null);
  const targets = wishes.where === "ticked" ? tickedTargets(ticked) : totals.data ? targetsOf(totals.data) : null;
  const size = targets === null ? null : sizeOf(builds, targets, seeds.length);
  const order = orderOf(
    builds.map(({ id }) => id),
    { ...wishes, train, devices: ticked.map(({ id }) => id) },
    seeds,
  );
  const missing = train === "" ? "No dataset has the inputs that these builds need." : null;
  const why = size?.problem ?? seedProblem ?? missing;

  const submit = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    post<Campaign>("/campaigns", order)
      .then(
        ({ id }) => go(link.campaign(id)),
        (error: unknown) => setProblem(asProblem(error)),
      )
      .finally(() => setBusy(false));
  };
  const said = (...fields: string[]) => saidOf(problem, ...fields);
  const atFields = said("name", "build_ids", "on", "device_ids", "dataset_id", "eval_dataset_id", "steps", "seeds");
  const atMore = said("canary", "stop", "retries");
  const onError = said("on", "device_ids") ?? (wishes.where === "ticked" ? null : (totals.problem?.detail ?? null));

  return (
    <form class="campaign-form" onSubmit={submit}>
      <Builds chosen={builds} onChosen={setBuilds} error={said("build_ids")} />
      <Devices
        wishes={wishes}
        wish={wish}
        targets={builds.map(({ target }) => target)}
        ticked={ticked}
        onTicked={setTicked}
        error={onError}
      />
      <div class="form-row">
        <WithError text={said("name")}>
          <label class="field">
            <span>Name</span>
            <input
              type="text"
              required
              maxLength={200}
              value={wishes.name}
              onInput={(event) => wish({ name: event.currentTarget.value })}
            />
          </label>
        </WithError>
        <WithError text={said("dataset_id")}>
          <DataChoice name="Training data" value={train} fits={fits} onChoice={(id) => wish({ train: id })} />
        </WithError>
        <WithError text={said("eval_dataset_id")}>
          <DataChoice
            name="Evaluation data"
            value={wishes.evaluation}
            fits={fits}
            none="none, so no accuracy"
            onChoice={(id) => wish({ evaluation: id })}
          />
        </WithError>
        <WithError text={said("steps")}>
          <Count name="Steps" value={wishes.steps} min={1} max={10_000_000} onCount={(steps) => wish({ steps })} />
        </WithError>
        <WithError text={seedProblem ?? said("seeds")}>
          <label class="field">
            <span>Seeds, such as 0, 1, 2 or 0-9</span>
            <input
              type="text"
              required
              maxLength={4000}
              value={wishes.seeds}
              onInput={(event) => wish({ seeds: event.currentTarget.value })}
            />
          </label>
        </WithError>
        <WithError text={said("canary")}>
          <Count
            name="Canary devices (0: none)"
            value={wishes.canary}
            min={0}
            max={100}
            onCount={(canary) => wish({ canary })}
          />
        </WithError>
        <WithError text={said("stop")}>
          <Count
            name="Stop above % failed (0: never)"
            value={wishes.stop}
            min={0}
            max={100}
            onCount={(stop) => wish({ stop })}
          />
        </WithError>
        <WithError text={said("retries")}>
          <Count
            name="Retries of transient failures"
            value={wishes.transient}
            min={0}
            max={10}
            onCount={(transient) => wish({ transient })}
          />
        </WithError>
        <Count
          name="Retries of crashes"
          value={wishes.crashed}
          min={0}
          max={10}
          onCount={(crashed) => wish({ crashed })}
        />
      </div>
      <p class="campaign-size" role="status">
        {size === null ? "Counting devices …" : builds.length > 0 && `${size.text}. `}
        {why !== null && <span class="campaign-why">{why}</span>}
      </p>
      {problem && atFields === null && atMore === null && <ProblemBox problem={problem} />}
      <div class="actions">
        <button type="submit" class="button button-primary" disabled={busy || size === null || why !== null}>
          {busy ? "Starting …" : `Start ${size ? format.grouped(size.runs) : ""} runs`}
        </button>
        <CopyButton text={curlPost("/campaigns", order)} of="starting this campaign" />
      </div>
    </form>
  );
}
