/** Choosing the builds and the devices of a campaign: both are searched by the service, and what was ticked stays. */

import { useState } from "preact/hooks";
import type { Build, Device, DeviceTotals } from "../../api/types";
import { FieldError } from "../../components/fields";
import { Loading } from "../../components/page";
import { useList, useResource } from "../../data";
import * as format from "../../format";
import { useSettled } from "../../hooks";
import { versionText } from "../../names";
import { nameGlob } from "../list_tools";
import { More } from "../tables";
import type { Where, Wishes } from "./order";

const EVERY_MS = 15_000;
const FEW = 20;

function toggled<T extends { readonly id: string }>(chosen: readonly T[], one: T): readonly T[] {
  return chosen.some(({ id }) => id === one.id) ? chosen.filter(({ id }) => id !== one.id) : [...chosen, one];
}

interface ListProps<T> {
  readonly of: readonly T[];
  readonly chosen: readonly T[];
  readonly onChosen: (chosen: readonly T[]) => void;
  readonly text: (one: T) => string;
  readonly hint: (one: T) => string;
}

/** What was ticked comes first, so that a search does not hide it. */
function Ticks<T extends { readonly id: string }>({ of, chosen, onChosen, text, hint }: ListProps<T>) {
  const shown = [...chosen, ...of.filter(({ id }) => chosen.every((one) => one.id !== id))];
  return (
    <div class="ticks">
      {shown.map((one) => (
        <label key={one.id} class="check">
          <input
            type="checkbox"
            checked={chosen.some(({ id }) => id === one.id)}
            onChange={() => onChosen(toggled(chosen, one))}
          />
          <span>
            {text(one)} <span class="faint">{hint(one)}</span>
          </span>
        </label>
      ))}
    </div>
  );
}

interface SearchProps {
  readonly label: string;
  readonly text: string;
  readonly onText: (text: string) => void;
}

function Search({ label, text, onText }: SearchProps) {
  return (
    <input
      type="search"
      aria-label={label}
      placeholder="a part of the name"
      maxLength={190}
      value={text}
      onInput={(event) => onText(event.currentTarget.value)}
    />
  );
}

interface BuildsProps {
  readonly chosen: readonly Build[];
  readonly onChosen: (chosen: readonly Build[]) => void;
  readonly error: string | null;
}

/** Builds that can run, or will be able to. */
export function Builds({ chosen, onChosen, error }: BuildsProps) {
  const [text, setText] = useState("");
  const name = nameGlob(useSettled(text));
  const { of, more } = useList<Build>(name ? `/builds?name=${encodeURIComponent(name)}` : "/builds", EVERY_MS, FEW);
  const usable = (of.data ?? []).filter(({ state }) => state !== "failed" && state !== "cancelled");
  return (
    <fieldset class="choices">
      <legend>Builds ({chosen.length} chosen)</legend>
      <Search label="Search builds" text={text} onText={setText} />
      {of.problem && <FieldError text={of.problem.detail} />}
      {of.data === null && <Loading what="builds" waits={of.waits} />}
      {of.data !== null && usable.length + chosen.length === 0 && (
        <p class="note">
          {text ? "No build has such a name." : "There is no build that can run. "}
          {!text && <a href="#/models">Ask for one at a model.</a>}
        </p>
      )}
      <Ticks of={usable} chosen={chosen} onChosen={onChosen} text={buildText} hint={buildHint} />
      <More more={more} />
      <FieldError text={error} />
    </fieldset>
  );
}

function buildText(build: Build): string {
  const name = versionText({ name: build.name || build.model_name, version: build.version });
  return build.recipe_version ? `${name} · ${versionText(build.recipe_version)}` : name;
}

function buildHint({ target, state, id }: Build): string {
  return `${target}${state === "succeeded" ? "" : `, ${state}`}, ${format.shortId(id)}`;
}

interface DevicesProps {
  readonly wishes: Wishes;
  readonly wish: (change: Partial<Wishes>) => void;
  /** Targets of the builds: of others no device is offered. */
  readonly targets: readonly string[];
  readonly ticked: readonly Device[];
  readonly onTicked: (devices: readonly Device[]) => void;
  readonly error: string | null;
}

const WAYS: Readonly<Record<Where, string>> = {
  pool: "All of a pool",
  ticked: "Some",
  selector: "By a selector",
};

export function Devices({ wishes, wish, targets, ticked, onTicked, error }: DevicesProps) {
  return (
    <fieldset class="choices">
      <legend>Devices</legend>
      <div class="choice" role="radiogroup" aria-label="Which devices">
        {(Object.keys(WAYS) as Where[]).map((where) => (
          <label key={where}>
            <input type="radio" name="where" checked={wishes.where === where} onChange={() => wish({ where })} />
            {WAYS[where]}
          </label>
        ))}
      </div>
      {wishes.where === "pool" && <Pools pool={wishes.pool} onPool={(pool) => wish({ pool })} />}
      {wishes.where === "ticked" && <Ticked targets={targets} ticked={ticked} onTicked={onTicked} />}
      {wishes.where === "selector" && (
        <label class="field">
          <span>Selector, such as pool=desk,ram&gt;=2GiB,pi-*</span>
          <input
            type="text"
            class="mono"
            required
            maxLength={1900}
            value={wishes.selector}
            onInput={(event) => wish({ selector: event.currentTarget.value })}
          />
        </label>
      )}
      <FieldError text={error} />
    </fieldset>
  );
}

function Pools({ pool, onPool }: { readonly pool: string; readonly onPool: (pool: string) => void }) {
  const totals = useResource<DeviceTotals>("/device-totals?on=state!%3Drevoked,state!%3Dquarantined", EVERY_MS);
  return (
    <label class="field field-short">
      <span>Pool</span>
      <select value={pool} onChange={(event) => onPool(event.currentTarget.value)}>
        <option value="">every pool ({format.count(totals.data?.total ?? 0)} devices)</option>
        {totals.data?.pools.map(({ name, count }) => (
          <option key={name} value={name}>
            {name} ({format.count(count)})
          </option>
        ))}
      </select>
    </label>
  );
}

type TickedProps = Pick<DevicesProps, "targets" | "ticked" | "onTicked">;

function Ticked({ targets, ticked, onTicked }: TickedProps) {
  const [text, setText] = useState("");
  const query = new URLSearchParams({ on: "state!=revoked,state!=quarantined", sort: "name", facts: "false" });
  const sought = useSettled(text).trim();
  if (sought) query.set("text", sought);
  const { of, more } = useList<Device>(`/devices?${query.toString()}`, EVERY_MS);
  const fitting = (of.data ?? []).filter(({ target }) => targets.length === 0 || targets.includes(target ?? ""));
  return (
    <>
      <Search label="Search devices" text={text} onText={setText} />
      {of.problem && <FieldError text={of.problem.detail} />}
      {of.data !== null && fitting.length + ticked.length === 0 && (
        <p class="note">No such device is of these builds' target.</p>
      )}
      <Ticks
        of={fitting}
        chosen={ticked}
        onChosen={onTicked}
        text={({ name }) => name}
        hint={({ target, state }) => [target, state].filter(Boolean).join(", ")}
      />
      <More more={more} />
    </>
  );
}
