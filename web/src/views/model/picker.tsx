/** The scheme picker: what is trained of each layer, what that takes on a device as one chooses, and the same as YAML. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { Page as ListPage } from "../../api/client";
import type { Build, Check, Device, Model, Target } from "../../api/types";
import { Later } from "../../components/later";
import { memo } from "../../components/memo";
import { Loaded, Page, ProblemBox, Section } from "../../components/page";
import { curlPost } from "../../commands";
import { useList, useResource } from "../../data";
import { address, link, setQuery } from "../../router";
import { type Mark, YamlEditor } from "../../scheme/editor";
import { useApproximation } from "../../scheme/approximation";
import { useAhead, useEstimate } from "../../scheme/estimate";
import { PRESETS, type Row, rowOf, rulesOf, type Scheme, schemeOf, trainable } from "../../scheme/scheme";
import { syntaxError, withTrained, written } from "../../scheme/text";
import { isTyping } from "../../shell/overlay";
import { recipeText } from "../recipe";
import { BuildFor } from "./build_for";
import { Fields } from "./fields";
import { packed, unpacked } from "./packed";
import { Picks } from "./picks";
import { type Kept, Verdict } from "./verdict";
import "../../styles/scheme.css";

export function PickerView({ id }: { readonly id: string }) {
  const path = `/models/${id}`;
  const model = useResource<Model>(path);
  const check = useResource<Check>(`${path}/check?target=host`);
  const targets = useResource<ListPage<Target>>("/targets");
  const { of: devices } = useList<Device>("/devices", 0);
  const origin = address.value?.query.get("build") ?? null;
  const build = useResource<Build>(origin === null ? null : `/builds/${origin}`);
  const ready = check.data !== null && (origin === null || build.data !== null || build.problem !== null);
  return (
    <Page
      title={model.data ? `What to train of ${model.data.name}` : "What to train"}
      kind="Scheme"
      back={{ href: link.model(id), text: model.data?.name ?? "Model" }}
      command={curlPost(`${path}/estimate`, { recipe: {}, target: "host" })}
      aside={
        <a class="button" href={link.graph(id, graphOf(address.value?.query))}>
          See the graph
        </a>
      }
    >
      {build.problem && <ProblemBox problem={build.problem} />}
      <Loaded of={check} what="the layers; the first time this takes some seconds">
        {(data) =>
          !data.supported ? (
            <p class="note">
              This model cannot be trained yet. <a href={link.model(id)}>Its page</a> says what is missing.
            </p>
          ) : (
            ready && (
              <Later>
                <Picker
                  id={id}
                  check={data}
                  given={build.data ? recipeText(build.data.recipe) : null}
                  targets={targets.data?.items ?? NONE}
                  devices={devices.data ?? NONE}
                />
              </Later>
            )
          )
        }
      </Loaded>
    </Page>
  );
}

/** The graph after pruning by the recipe of the present address. */
function graphOf(query: URLSearchParams | undefined): Readonly<Record<string, string | null>> {
  const recipe = query?.get("recipe") ?? null;
  return { recipe, target: query?.get("target") ?? null, graph: recipe === null ? null : "pruned" };
}

const MOST_UNDONE = 200;
const LONGEST_ADDRESS = 6000;

interface State {
  readonly text: string;
  /** What the table shows: what the text says, or said before a person wrote in it, until the service has read it. */
  readonly scheme: Scheme;
  readonly read: boolean;
  /** Counts the changes that were not typed into the text. */
  readonly revision: number;
}

const NONE: readonly never[] = [];

/** The head, with the loss that suits most models and a rate that is seldom wrong. */
function beginning(rows: readonly Row[], check: Check): State {
  const head = trainable(rows).at(-1);
  const scheme: Scheme = new Map(head?.parameters.map(({ name }) => [name, { kind: "all" as const }]) ?? []);
  const type = Object.values(check.inputs)[0] ?? "";
  const batch = Number(/\[(\d+)/.exec(type)?.[1] ?? 8);
  const settings = { loss: "cross_entropy", optimizer: { name: "adamw", lr: 0.001 }, batch };
  return { text: written({ ...settings, ...rulesOf(rows, scheme) }), scheme, read: true, revision: 0 };
}

/** The text with each preset instead of what it trains. */
function* presetsOf(text: string, rows: readonly Row[]): Iterable<string> {
  for (const { choose } of PRESETS) yield withTrained(text, rulesOf(rows, choose(rows)));
}

interface PickerProps {
  readonly id: string;
  readonly check: Check;
  /** The recipe to begin with; null for the head alone. */
  readonly given: string | null;
  readonly targets: readonly Target[];
  readonly devices: readonly Device[];
}

function Picker({ id, check, given, targets, devices }: PickerProps) {
  const rows = useMemo(() => check.layers.map(rowOf), [check]);
  const query = address.value?.query;
  const target = query?.get("target") ?? "host";
  const deviceId = query?.get("device") ?? null;
  const [state, setState] = useState<State>(() => {
    const text = unpacked(query?.get("recipe") ?? null) ?? given;
    return text === null ? beginning(rows, check) : { text, scheme: new Map(), read: false, revision: 0 };
  });
  const [past, setPast] = useState<readonly State[]>([]);
  const [future, setFuture] = useState<readonly State[]>([]);
  const [other, setOther] = useState<Kept | null>(null);

  const wrong = useMemo(() => syntaxError(state.text), [state.text]);
  const estimated = useEstimate(id, wrong ? null : state.text, target);
  const about = useApproximation(id, wrong ? null : state.text, target, estimated);
  if (!state.read && estimated.estimate && estimated.of === state.text) {
    const scheme = schemeOf(estimated.estimate.layers);
    setState((now) => (now.text === estimated.of ? { ...now, scheme, read: true } : now));
  }

  const told = estimated.of === state.text && !wrong ? estimated.estimate : null;
  useAhead(id, () => presetsOf(state.text, rows), target, told !== null && !estimated.pending);

  const become = (next: State) => {
    setPast([...past.slice(-MOST_UNDONE), state]);
    setFuture([]);
    show(next);
  };
  const show = (next: State) => {
    setState(next);
    const code = packed(next.text);
    setQuery({ recipe: code.length < LONGEST_ADDRESS ? code : null, build: null });
  };
  const revision = state.revision + 1;
  const choose = (scheme: Scheme) => {
    become({ text: withTrained(state.text, rulesOf(rows, scheme)), scheme, read: true, revision });
  };
  const read = (text: string, counted: number) => {
    become({ text, scheme: state.scheme, read: false, revision: counted });
  };
  const type = (text: string) => read(text, state.revision);
  const replace = (text: string) => read(text, revision);
  const step = (from: readonly State[], to: readonly State[], set: [typeof setPast, typeof setFuture]) => {
    const next = from.at(-1);
    if (!next) return;
    set[0](from.slice(0, -1));
    set[1]([...to, state]);
    show({ ...next, revision });
  };
  const deeds = useRef({ choose, replace });
  deeds.current = { choose, replace };
  const put = useMemo(() => (text: string) => deeds.current.replace(text), []);
  // Hundreds of rows, which what it takes does not change.
  const picks = useMemo(
    () => (
      <Picks
        layers={check.layers}
        rows={rows}
        scheme={state.scheme}
        onScheme={(scheme) => deeds.current.choose(scheme)}
        modelId={id}
        onText={put}
      />
    ),
    [check, rows, state.scheme, id, put],
  );
  const undo = () => step(past, future, [setPast, setFuture]);
  const redo = () => step(future, past, [setFuture, setPast]);
  const keys = (event: KeyboardEvent) => {
    if (isTyping(event) || !(event.ctrlKey || event.metaKey)) return;
    const back = event.key === "z" && !event.shiftKey;
    if (!back && event.key !== "y" && !(event.key === "Z" && event.shiftKey)) return;
    event.preventDefault();
    if (back) undo();
    else redo();
  };

  const marks: Mark[] = wrong ? [wrong] : marksOf(estimated.problem?.errors ?? [], estimated.problem?.detail ?? null);
  const chosen = useMemo(() => choiceOf(targets, devices, target, deviceId), [targets, devices, target, deviceId]);
  const current: Kept | null = told && { text: state.text, estimate: told };
  return (
    <div class="picker" onKeyDown={keys}>
      <div class="picker-main">
        <Later>
          <Section
            title="Layers"
            note="Choose what is trained of each layer. Several at once: mark them, then choose above."
          >
            <div class="actions">
              <button type="button" class="button" onClick={undo} disabled={past.length === 0}>
                Undo
              </button>
              <button type="button" class="button" onClick={redo} disabled={future.length === 0}>
                Redo
              </button>
            </div>
            {picks}
          </Section>
        </Later>
      </div>
      <div class="picker-side">
        <Later>
          <Section title="What it takes">
            <DeviceChoice chosen={chosen} />
            <Verdict
              estimated={estimated}
              about={about}
              budget={chosen.budget}
              other={other}
              onKeep={current ? () => setOther(current) : null}
              onTakeOther={other ? () => replace(other.text) : null}
              onForget={() => setOther(null)}
              wrong={wrong?.message ?? null}
            />
          </Section>
        </Later>
        <Later>
          <Section title="Recipe" note="The same as YAML. What you write here changes the table.">
            <Fields text={state.text} onText={put} />
            <YamlEditor
              text={state.text}
              revision={state.revision}
              onText={type}
              marks={marks}
              label="Recipe in YAML"
            />
            {marks.length > 0 && (
              <ul class="marks" role="alert">
                {marks.map(({ line, message }) => (
                  <li key={`${line} ${message}`}>
                    Line {line}: {message}
                  </li>
                ))}
              </ul>
            )}
          </Section>
        </Later>
        <Later>
          <BuildFor modelId={id} text={state.text} takes={told} targets={targets} first={target} />
        </Later>
      </div>
    </div>
  );
}

function marksOf(
  errors: readonly { readonly line?: number | null; readonly message: string }[],
  detail: string | null,
) {
  const found = errors.map(({ line, message }) => ({ line: line ?? 1, message }));
  return found.length === 0 && detail !== null ? [{ line: 1, message: detail }] : found;
}

interface Chosen {
  readonly targets: readonly Target[];
  readonly devices: readonly Device[];
  readonly target: string;
  readonly deviceId: string | null;
  /** Bytes that the chosen device may give; null where it has not said how much it has: then the target's count. */
  readonly budget: number | null;
}

/** A quarter of a memory is left to the system. */
const SHARE = 3 / 4;

function choiceOf(
  targets: readonly Target[],
  devices: readonly Device[],
  target: string,
  deviceId: string | null,
): Chosen {
  const memory = devices.find((one) => one.id === deviceId)?.facts.memory_total_bytes;
  return {
    targets,
    devices: devices.filter((one) => one.target !== null && one.state !== "revoked"),
    target,
    deviceId,
    budget: typeof memory === "number" ? memory * SHARE : null,
  };
}

const DeviceChoice = memo(function DeviceChoice({ chosen }: { readonly chosen: Chosen }) {
  const value = chosen.deviceId === null ? `target ${chosen.target}` : `device ${chosen.deviceId}`;
  const choose = (said: string) => {
    const [kind, name = ""] = said.split(/ (.*)/s);
    const device = kind === "device" ? chosen.devices.find((one) => one.id === name) : undefined;
    setQuery(device ? { target: device.target, device: device.id } : { target: name, device: null });
  };
  return (
    <label class="field">
      <span>Device</span>
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        <optgroup label="Targets">
          {chosen.targets.map(({ name, description }) => (
            <option key={name} value={`target ${name}`}>
              {name}
              {description && `, ${description}`}
            </option>
          ))}
        </optgroup>
        {chosen.devices.length > 0 && (
          <optgroup label="Devices of this workspace">
            {chosen.devices.map((device) => (
              <option key={device.id} value={`device ${device.id}`}>
                {device.name} ({device.target}, {device.state})
              </option>
            ))}
          </optgroup>
        )}
      </select>
    </label>
  );
});
