/** What the form asks for, as the service is asked, and how many runs that is. Pure functions. */

import * as format from "../../format";
import type { Build, DeviceTotals } from "../../api/types";
import { exactly } from "../fleet/asked";

export const MOST_RUNS = 5000;
const MOST_SEEDS = 1000;

/** Which devices: all of a pool, some that were ticked, or those of a selector. */
export type Where = "pool" | "ticked" | "selector";

export interface Wishes {
  readonly name: string;
  readonly where: Where;
  /** Empty for every pool. */
  readonly pool: string;
  readonly devices: readonly string[];
  readonly selector: string;
  readonly train: string | null;
  readonly evaluation: string;
  readonly steps: number;
  readonly seeds: string;
  /** Devices that go first; 0 for none. */
  readonly canary: number;
  /** Percent of the runs; 0 for no rule. */
  readonly stop: number;
  readonly transient: number;
  readonly crashed: number;
}

export const AT_FIRST: Wishes = {
  name: "sweep",
  where: "pool",
  pool: "",
  devices: [],
  selector: "",
  train: null,
  evaluation: "",
  steps: 100,
  seeds: "0, 1, 2",
  canary: 1,
  stop: 20,
  transient: 3,
  crashed: 1,
};

export interface Seeds {
  readonly seeds: readonly number[];
  /** What is wrong, as a sentence; null where nothing is. */
  readonly problem: string | null;
}

/** "1, 2, 5-7" -> 1, 2, 5, 6, 7. */
export function seedsOf(text: string): Seeds {
  const seeds: number[] = [];
  const wrong = (problem: string): Seeds => ({ seeds: [], problem });
  for (const part of text.split(/[\s,]+/).filter(Boolean)) {
    const [, first = "", last = first] = /^(\d{1,15})(?:-(\d{1,15}))?$/.exec(part) ?? [];
    if (first === "") return wrong(`“${part.slice(0, 40)}” is no seed: write whole numbers, such as 0, 1, 2 or 0-9.`);
    const [from, to] = [Number(first), Number(last)];
    if (to < from) return wrong(`“${part}” goes backwards.`);
    if (seeds.length + to - from + 1 > MOST_SEEDS) return wrong(`A campaign has ${MOST_SEEDS} seeds at most.`);
    for (let seed = from; seed <= to; seed += 1) seeds.push(seed);
  }
  if (seeds.length === 0) return wrong("Give one seed at least.");
  return new Set(seeds).size < seeds.length ? wrong("A seed is there twice.") : { seeds, problem: null };
}

/** 1, 2, 5, 6, 7 -> "1, 2, 5-7": as a person would type them. */
export function seedsText(seeds: readonly number[]): string {
  const ranges: [number, number][] = [];
  for (const seed of [...seeds].sort((one, other) => one - other)) {
    const last = ranges.at(-1);
    if (last && seed === last[1] + 1) last[1] = seed;
    else ranges.push([seed, seed]);
  }
  return ranges
    .map(([from, to]) => (from === to ? String(from) : `${from}${to === from + 1 ? ", " : "-"}${to}`))
    .join(", ");
}

/** The selector of the devices. */
export function selectorOf({ where, pool, selector }: Wishes): string {
  if (where === "selector") return selector.trim();
  return where === "pool" && pool !== "" ? `pool=${exactly(pool)}` : "*";
}

/** Where to count the devices that can take part; null where nothing is to be counted. */
export function totalsPath(wishes: Wishes): string | null {
  const on = selectorOf(wishes);
  if (wishes.where === "ticked" || on === "") return null;
  const query = new URLSearchParams({ on: `${on},state!=revoked,state!=quarantined` });
  return `/device-totals?${query.toString()}`;
}

/** Devices of each target. */
export type Targets = ReadonlyMap<string, number>;

export function targetsOf(totals: DeviceTotals): Targets {
  return new Map(totals.targets.map(({ name, count }) => [name, count]));
}

export interface Size {
  readonly runs: number;
  /** "6 runs: 2 builds on 3 devices with 1 seed". */
  readonly text: string;
  /** Why it cannot be started, as a sentence; null where it can. */
  readonly problem: string | null;
}

const counted = (count: number, noun: string) => `${format.grouped(count)} ${noun}${count === 1 ? "" : "s"}`;

/** How many runs these builds are on devices of such targets with so many seeds. */
export function sizeOf(builds: readonly Build[], targets: Targets, seeds: number): Size {
  const runs = builds.reduce((sum, { target }) => sum + (targets.get(target) ?? 0), 0) * seeds;
  const wanted = new Set(builds.map(({ target }) => target));
  const devices = [...wanted].reduce((sum, target) => sum + (targets.get(target) ?? 0), 0);
  const missing = [...wanted].filter((target) => (targets.get(target) ?? 0) === 0);
  const parts = `${counted(builds.length, "build")} on ${counted(devices, "device")} with ${counted(seeds, "seed")}`;
  const without = missing.length > 0 && runs > 0 ? `; no device is of ${missing.join(", ")}` : "";
  const problem =
    builds.length === 0
      ? "Choose a build."
      : devices === 0
        ? `No chosen device is of ${missing.join(", ")}.`
        : runs > MOST_RUNS
          ? `A campaign has ${counted(MOST_RUNS, "run")} at most: choose fewer devices or seeds.`
          : null;
  return { runs, text: `${counted(runs, "run")}: ${parts}${without}`, problem };
}

export function orderOf(builds: readonly string[], wishes: Wishes, seeds: readonly number[]): Record<string, unknown> {
  return {
    name: wishes.name.trim(),
    build_ids: [...builds],
    on: selectorOf(wishes),
    ...(wishes.where === "ticked" ? { device_ids: [...wishes.devices] } : {}),
    dataset_id: wishes.train ?? "DATASET_ID",
    ...(wishes.evaluation === "" ? {} : { eval_dataset_id: wishes.evaluation }),
    steps: wishes.steps,
    seeds: [...seeds],
    ...(wishes.canary > 0 ? { canary: { devices: wishes.canary } } : {}),
    ...(wishes.stop > 0 ? { stop: { failed_share: wishes.stop / 100 } } : {}),
    retries: { transient: wishes.transient, crashed: wishes.crashed },
  };
}
