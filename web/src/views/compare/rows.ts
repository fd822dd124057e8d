/** What is compared of runs: figures, differences to a base, and which runs no other one beats. Pure functions. */

import type { Run } from "../../api/types";
import * as format from "../../format";
import { runText, versionText } from "../../names";

/** So many runs are compared at most. */
export const MOST_RUNS = 24;
/** So many colours tell runs apart; then they begin again. */
export const COLORS = 8;
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** The runs of `?runs=ID,ID`: each once, and never more than are compared. */
export function chosenRuns(text: string | null | undefined): string[] {
  const ids = (text ?? "").split(",").filter((id) => ID.test(id));
  return [...new Set(ids)].slice(0, MOST_RUNS);
}

export function toggled(ids: readonly string[], id: string): string[] {
  return ids.includes(id) ? ids.filter((other) => other !== id) : [...ids, id].slice(0, MOST_RUNS);
}

type Key = "loss" | "accuracy" | "planned" | "peak" | "step" | "took";

export interface Column {
  readonly key: Key;
  readonly name: string;
  readonly text: (value: number | null) => string;
  /** The difference of accuracies is in points; all others are relative. */
  readonly points?: true;
}

export const COLUMNS: readonly Column[] = [
  { key: "loss", name: "Final loss", text: format.loss },
  { key: "accuracy", name: "Accuracy", text: format.percent, points: true },
  { key: "planned", name: "Predicted peak", text: format.bytes },
  { key: "peak", name: "Measured peak", text: format.bytes },
  { key: "step", name: "Step median", text: format.milliseconds },
  { key: "took", name: "Took", text: (value) => (value === null ? format.NOTHING : format.milliseconds(value)) },
];

export type Row = Readonly<Record<Key, number | null>> & {
  readonly id: string;
  readonly name: string;
  readonly device: string;
  readonly scheme: string;
  readonly color: string;
  readonly run: Run;
};

export function rowOf(run: Run, index: number): Row {
  const train = run.report?.train;
  const took = run.started_at && run.finished_at ? Date.parse(run.finished_at) - Date.parse(run.started_at) : null;
  return {
    id: run.id,
    name: runText(run),
    device: run.device_name,
    scheme: versionText(run.recipe ?? run.build),
    color: `compare-${(index % COLORS) + 1}`,
    run,
    loss: train?.loss?.at(-1) ?? run.progress?.loss ?? null,
    accuracy: run.report?.eval_after?.accuracy ?? null,
    planned: train?.predicted_peak_bytes ?? null,
    peak: train?.peak_rss_bytes ?? null,
    step: train?.step_ms?.median ?? null,
    took,
  };
}

/** "+3.2 %" of the base's figure, "−1.4 points" of its accuracy; empty where one is not known. */
export function difference(column: Column, row: Row, base: Row | undefined): string {
  const [value, other] = [row[column.key], base?.[column.key] ?? null];
  if (value === null || other === null || row.id === base?.id) return "";
  if (!column.points) return other === 0 ? "" : format.deviation(value, other);
  return `${value < other ? "−" : "+"}${format.points(Math.abs(value - other))}\u00a0points`;
}

export interface Point {
  readonly id: string;
  readonly x: number;
  readonly y: number;
}

/** The points that no other one beats, from the least `x`: none has more `y` for as little `x`. */
export function front(points: readonly Point[]): Point[] {
  const ordered = [...points].sort((a, b) => a.x - b.x || b.y - a.y);
  const found: Point[] = [];
  for (const point of ordered) {
    const last = found.at(-1);
    const equal = last !== undefined && point.x === last.x && point.y === last.y;
    if (last === undefined || equal || point.y > last.y) found.push(point);
  }
  return found;
}

/** Runs by device and scheme; null unless there are several of both. The newest run of a cell comes first. */
export function grid(rows: readonly Row[]) {
  const devices = [...new Set(rows.map(({ device }) => device))];
  const schemes = [...new Set(rows.map(({ scheme }) => scheme))];
  if (devices.length < 2 || schemes.length < 2) return null;
  const cell = (device: string, scheme: string) =>
    rows
      .filter((row) => row.device === device && row.scheme === scheme)
      .sort((a, b) => b.run.created_at.localeCompare(a.run.created_at));
  return { devices, schemes, cell };
}

/** A scale from the least to the largest value, with some air, onto `[from, to]`. */
export function scale(values: readonly number[], from: number, to: number): (value: number) => number {
  const least = values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const air = (most - least) * 0.08 || Math.abs(most) * 0.05 || 1;
  return (value) => from + ((value - least + air) / (most - least + 2 * air)) * (to - from);
}
