/** What the fleet is asked for: a text, and choices with the true count of each. All of it is in the address. */

import { useEffect, useState } from "preact/hooks";
import type { DeviceTotals } from "../../api/types";
import * as format from "../../format";
import { address, setQuery } from "../../router";
import { type Asked, comparable, MARKS, STATES } from "./asked";

const SETTLED_MS = 250;

interface ToolsProps {
  readonly asked: Asked;
  /** Of all devices: what there is to choose from. */
  readonly all: DeviceTotals | null;
}

export function Tools({ asked, all }: ToolsProps) {
  return (
    <div class="list-tools" role="search">
      <Search />
      <Choice name="Target" part="target" value={asked.target} groups={all?.targets} />
      <Choice name="Pool" part="pool" value={asked.pool} groups={all?.pools} />
      <Choice name="Agent" part="agent" value={asked.agent} groups={versions(all)} />
    </div>
  );
}

function Search() {
  const wanted = address.value?.query.get("q") ?? "";
  const [text, setText] = useState(wanted);
  useEffect(() => setText(wanted), [wanted]);
  useEffect(() => {
    if (text === (address.peek()?.query.get("q") ?? "")) return;
    const timer = setTimeout(() => setQuery({ q: text || null }), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <label class="field">
      <span>Search name, pool, target and labels</span>
      <input
        type="search"
        value={text}
        maxLength={200}
        placeholder="bench, or room=attic"
        onInput={(event) => setText(event.currentTarget.value)}
      />
    </label>
  );
}

type Groups = DeviceTotals["pools"];

/** The service compares agents by the numbers of their versions. */
function versions(all: DeviceTotals | null): Groups | undefined {
  const counts = new Map<string, number>();
  for (const { name, count } of all?.agent_versions ?? []) {
    const version = comparable(name);
    if (version !== null) counts.set(version, (counts.get(version) ?? 0) + count);
  }
  return [...counts].map(([name, count]) => ({ name, count }));
}

interface ChoiceProps {
  readonly name: string;
  readonly part: "target" | "pool" | "agent";
  readonly value: string;
  readonly groups: Groups | undefined;
}

function Choice({ name, part, value, groups = [] }: ChoiceProps) {
  const missing = value !== "" && !groups.some((group) => group.name === value);
  return (
    <label class="field field-short">
      <span>{name}</span>
      <select value={value} onChange={(event) => setQuery({ [part]: event.currentTarget.value || null })}>
        <option value="">Any</option>
        {missing && <option value={value}>{value}</option>}
        {groups.map((group) => (
          <option key={group.name} value={group.name}>
            {group.name} ({format.count(group.count)})
          </option>
        ))}
      </select>
    </label>
  );
}

/** One press shows only these. Those that were revoked are shown only so. */
export function StateChips({ asked, totals }: { readonly asked: Asked; readonly totals: DeviceTotals | null }) {
  const counts: Readonly<Record<string, number | undefined>> = {
    "": totals?.total,
    ...totals?.states,
    throttled: totals?.throttled,
    resting: totals?.resting,
  };
  return (
    <div class="chips" role="group" aria-label="State">
      {["", ...STATES, ...MARKS].map((state) => (
        <button
          key={state}
          type="button"
          class="chip"
          aria-pressed={asked.state === state}
          onClick={() => setQuery({ state: state || null })}
        >
          {state || "all"}
          {state !== "revoked" && <span class="chip-count">{totals ? exact(counts[state] ?? 0) : "…"}</span>}
        </button>
      ))}
    </div>
  );
}

/** Not shortened: people compare these. */
export function exact(count: number): string {
  return format.grouped(count);
}
