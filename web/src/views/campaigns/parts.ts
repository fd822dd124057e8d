/** How campaigns and their cells stand, and what may be done with one, in words. */

import type { Campaign, CampaignCell, CellCounts } from "../../api/types";
import type { Deed } from "../../components/deed";
import * as format from "../../format";
import type { Tone } from "../../components/tone_badge";

export const CAMPAIGN_TONES: Readonly<Record<Campaign["state"], Tone>> = {
  running: "active",
  paused: "waiting",
  stopping: "waiting",
  succeeded: "good",
  failed: "bad",
  cancelled: "quiet",
};

export const ENDED: readonly Campaign["state"][] = ["succeeded", "failed", "cancelled"];

/** What a state means that its word does not say. */
export const STATE_HINTS: Readonly<Partial<Record<Campaign["state"], string>>> = {
  paused: "no further runs are asked for",
  stopping: "its last runs are being cancelled",
};

type CellState = CampaignCell["state"];

export const CELL_STATES: readonly CellState[] = ["succeeded", "failed", "cancelled", "skipped", "running", "pending"];

/** What became of a cell, as the legend says it. */
export const CELL_WORDS: Readonly<Record<CellState, string>> = {
  succeeded: "succeeded",
  failed: "failed",
  cancelled: "cancelled",
  skipped: "skipped",
  running: "running, or waiting for its device",
  pending: "to come",
};

export function isOpen(state: CellState): boolean {
  return state === "pending" || state === "running";
}

/** Cells that have their outcome, whatever it is. */
export function endedCount(cells: CellCounts): number {
  return cells.total - cells.pending - cells.running;
}

/** "10 succeeded, 1 failed, 2 running": what there is none of is left out. */
export function countsText(cells: Omit<CellCounts, "total">): string {
  const told = CELL_STATES.filter((state) => cells[state] > 0);
  return told.map((state) => `${format.count(cells[state])} ${state === "pending" ? "to come" : state}`).join(", ");
}

/** "3 more: 2 succeeded, 1 failed", of cells that are not drawn one by one. */
export function othersText(cells: readonly CampaignCell[]): string {
  const counts = { pending: 0, running: 0, succeeded: 0, failed: 0, cancelled: 0, skipped: 0 };
  for (const { state } of cells) counts[state] += 1;
  return `${format.count(cells.length)} more: ${countsText(counts)}`;
}

/** "digits" of "digits:v1"; later versions stay. */
export function shortVersion(text: string): string {
  return text.replace(/:v1$/, "");
}

export const DEEDS: readonly Deed<Campaign["state"]>[] = [
  {
    verb: "Pause",
    doing: "Pausing",
    path: "pause",
    from: ["running"],
    warning: "No further runs are asked for until it is resumed. Those that were asked for go on.",
  },
  {
    verb: "Resume",
    doing: "Resuming",
    path: "resume",
    from: ["paused"],
    warning: "It asks for its next runs again.",
  },
  {
    verb: "Cancel",
    doing: "Cancelling",
    path: "cancel",
    from: ["running", "paused"],
    warning: "Its runs that are not over are cancelled, and no others are asked for. It cannot go on later.",
  },
];
