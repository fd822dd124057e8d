/** The cells of a campaign as a grid: a row for each device, a column for each build. Pure functions. */

import type { CampaignCell, CampaignResult } from "../../api/types";
import * as format from "../../format";
import { MOST_RUNS } from "../compare/rows";
import { isOpen } from "./parts";

/** Cells that one answer of the service has at most. */
export const PAGE = 200;

export interface Row {
  readonly deviceId: string;
  readonly name: string;
  readonly target: string;
  readonly canary: boolean;
  /** By build; of each, in the order of the seeds. */
  readonly cells: ReadonlyMap<string, readonly CampaignCell[]>;
  readonly all: readonly CampaignCell[];
}

/** The cells after some were read again: one that is as before is the same object. */
export function merged(known: readonly CampaignCell[], read: readonly CampaignCell[]): readonly CampaignCell[] {
  const found = [...known];
  let changed = false;
  for (const cell of read) {
    const before = found[cell.number];
    if (before && before.state === cell.state && before.run_id === cell.run_id) continue;
    found[cell.number] = cell;
    changed = true;
  }
  return changed ? found : known;
}

/** Numbers of the pages that may be another next time, from 0: those with a cell that has no outcome yet. */
export function openPages(cells: readonly CampaignCell[]): readonly number[] {
  return [...new Set(cells.filter(({ state }) => isOpen(state)).map(({ number }) => Math.floor(number / PAGE)))];
}

/** One row a device, by name. A row all of whose cells are as before is the same object as in `before`. */
export function rowsOf(cells: readonly CampaignCell[], before: readonly Row[] = []): readonly Row[] {
  const of = new Map<string, CampaignCell[]>();
  for (const cell of cells) {
    const mine = of.get(cell.device_id);
    if (mine) mine.push(cell);
    else of.set(cell.device_id, [cell]);
  }
  const known = new Map(before.map((row) => [row.deviceId, row]));
  const rows = [...of.values()].map((mine) => {
    const same = known.get(mine[0]?.device_id ?? "");
    return same?.all.length === mine.length && same.all.every((cell, place) => cell === mine[place]) ? same : row(mine);
  });
  const { compare } = namesInOrder();
  return rows.sort((one, other) => compare(one.name, other.name));
}

let collator: Intl.Collator | undefined;

/** "pi-9" before "pi-10". It takes the browser a while to make, so it is there before names are. */
export function namesInOrder(): Intl.Collator {
  return (collator ??= new Intl.Collator(undefined, { numeric: true }));
}

function row(all: readonly CampaignCell[]): Row {
  const cells = new Map<string, CampaignCell[]>();
  for (const cell of [...all].sort((one, other) => one.seed - other.seed)) {
    cells.set(cell.build_id, [...(cells.get(cell.build_id) ?? []), cell]);
  }
  const [first] = all;
  return {
    deviceId: first?.device_id ?? "",
    name: first?.device_name ?? "",
    target: first?.target ?? "",
    canary: all.some(({ canary }) => canary),
    cells,
    all,
  };
}

export const SHOWN = { "": "all", failed: "with a failure", open: "not over" } as const;
export type Shown = keyof typeof SHOWN;

/** Rows of devices that are asked for: by a part of their name, and by how their cells stand. */
export function chosenRows(rows: readonly Row[], text: string, shown: Shown): readonly Row[] {
  const sought = text.trim().toLowerCase();
  return rows.filter(
    ({ name, all }) =>
      name.toLowerCase().includes(sought) &&
      (shown === "" || all.some(({ state }) => (shown === "failed" ? state === "failed" : isOpen(state)))),
  );
}

/** With more seeds, counts say the same sooner. */
export const MARKS_OF_FIELD = 30;
/** A page with thousands of marks is slow. */
const MARKS_AT_ONCE = 600;
const FEWEST_ROWS = 4;

/** So many rows are drawn at first, and as many more when asked for. */
export function rowsAtOnce(builds: number, seeds: number): number {
  const marks = builds * Math.min(seeds, MARKS_OF_FIELD);
  return Math.max(FEWEST_ROWS, Math.floor(MARKS_AT_ONCE / Math.max(1, marks)));
}

/** The runs of these cells that can be compared, as many as are compared at most. Cells are begun seed by seed, so the
 * first of them are of as many devices as can be. */
export function comparable(cells: readonly CampaignCell[]): readonly string[] {
  const ended = cells.filter(({ state, run_id }) => state === "succeeded" && run_id !== null);
  return ended.map(({ run_id }) => run_id ?? "").slice(0, MOST_RUNS);
}

export type FigureName = "accuracy" | "loss" | "step_ms" | "peak_bytes" | "joules_per_step";
type Spread = NonNullable<CampaignResult[FigureName]>;

export const FIGURES: Readonly<
  Record<FigureName, { readonly name: string; readonly text: (value: number) => string }>
> = {
  accuracy: { name: "Accuracy", text: format.percent },
  loss: { name: "Loss", text: format.loss },
  step_ms: { name: "Step", text: format.milliseconds },
  peak_bytes: { name: "Peak memory", text: format.bytes },
  joules_per_step: { name: "J/step", text: format.loss },
};
export const FIGURE_NAMES = Object.keys(FIGURES) as readonly FigureName[];

/** The first figure that any result has. */
export function figureOf(results: readonly CampaignResult[], asked: string | null): FigureName {
  const wanted = FIGURE_NAMES.find((name) => name === asked);
  return wanted ?? FIGURE_NAMES.find((name) => results.some((one) => one[name] !== null)) ?? "accuracy";
}

/** "93.1 % ±1.2": the median, and how far the 10th or 90th percentile is from it: accuracies in points, the others in
 * percent of the median. Of one run there is no spread. */
export function spreadText(name: FigureName, spread: Spread | null | undefined): string {
  if (!spread) return format.NOTHING;
  const text = FIGURES[name].text(spread.median);
  if (spread.n < 2) return text;
  const far = Math.max(spread.high - spread.median, spread.median - spread.low);
  if (name === "accuracy") return `${text} ±${format.points(far)}`;
  if (spread.median === 0) return text;
  return `${text} ±${format.percent(far / Math.abs(spread.median))}`;
}
