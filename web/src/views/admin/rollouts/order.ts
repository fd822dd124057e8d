/** What the form of a rollout asks for, and what that means in devices. Pure functions. */

import * as format from "../../../format";
import type { AgentRelease, DeviceTotals } from "../../../api/types";

export interface Wishes {
  readonly on: string;
  readonly canary: number;
  /** "10, 50, 100": how far each stage goes, in percent. */
  readonly stages: string;
  readonly healthy: number;
  readonly checkIn: number;
  readonly maxFailed: number;
}

/** As the service has it where nothing is said. */
export const AT_FIRST: Wishes = {
  on: "",
  canary: 1,
  stages: "10, 50, 100",
  healthy: 600,
  checkIn: 300,
  maxFailed: 0,
};

const MOST_DEVICES = 20_000;

export interface Stages {
  readonly stages: readonly number[];
  /** What is wrong, as a sentence; null where nothing is. */
  readonly problem: string | null;
}

/** "10, 50, 100" -> 10, 50, 100. */
export function stagesOf(text: string): Stages {
  const parts = text.split(/[\s,%]+/).filter(Boolean);
  const wrong = (problem: string): Stages => ({ stages: [], problem });
  const odd = parts.find((part) => !/^\d{1,3}$/.test(part));
  if (odd !== undefined)
    return wrong(`“${odd.slice(0, 40)}” is no percentage: write whole numbers, such as 10, 50, 100.`);
  const stages = parts.map(Number);
  if (stages.at(-1) !== 100) return wrong("The last stage is 100: all devices.");
  if (stages.some((percent, index) => percent <= (stages[index - 1] ?? 0)))
    return wrong("Each stage goes further than the one before.");
  return { stages, problem: null };
}

/** Where to count the devices that a selector chooses and that can be told anything; null where nothing is chosen. */
export function totalsPath(on: string): string | null {
  if (on.trim() === "") return null;
  const query = new URLSearchParams({ on: `${on.trim()},state!=revoked,state!=quarantined` });
  return `/device-totals?${query.toString()}`;
}

export interface Reach {
  /** Devices that do not run the release yet. */
  readonly devices: number;
  /** "10 devices: first 1, then 5, then all 10". */
  readonly text: string;
  /** Why it cannot be started, as a sentence; null where it can. */
  readonly problem: string | null;
}

const counted = (count: number) => `${format.grouped(count)} ${count === 1 ? "device" : "devices"}`;

/** Which devices a rollout reaches, and by which steps. */
export function reachOf(
  totals: DeviceTotals,
  version: string,
  { canary }: Pick<Wishes, "canary">,
  stages: readonly number[],
): Reach {
  const already = totals.agent_versions.find(({ name }) => name === version)?.count ?? 0;
  const devices = totals.total - already;
  const steps = stepsOf(devices, canary, stages);
  const same =
    already > 0
      ? ` ${counted(already)} of ${format.grouped(totals.total)} ${already === 1 ? "has" : "have"} it already.`
      : "";
  const problem =
    totals.total === 0
      ? "No device matches."
      : devices === 0
        ? `Every device that matches runs ${version} already.`
        : totals.total > MOST_DEVICES
          ? `A rollout reaches ${counted(MOST_DEVICES)} at most: make several.`
          : null;
  return { devices, text: `${counted(devices)}${stepsText(steps)}.${same}`, problem };
}

/** How many devices have been told of it at the end of the canary and of each stage, where that grows. */
export function stepsOf(devices: number, canary: number, stages: readonly number[]): readonly number[] {
  const ends = [canary, ...stages.map((percent) => Math.ceil((devices * percent) / 100))];
  const steps: number[] = [];
  for (const end of ends) {
    const reached = Math.min(devices, end);
    if (reached > (steps.at(-1) ?? 0)) steps.push(reached);
  }
  return steps;
}

function stepsText(steps: readonly number[]): string {
  if (steps.length < 2) return "";
  const told = steps.map((step, index) => {
    const number = format.grouped(step);
    return index === 0 ? `first ${number}` : index === steps.length - 1 ? `then all ${number}` : `then ${number}`;
  });
  return `: ${told.join(", ")}`;
}

export function orderOf(release: string, wishes: Wishes, stages: readonly number[]): Record<string, unknown> {
  return {
    release_id: release || "RELEASE_ID",
    on: wishes.on.trim(),
    canary: wishes.canary,
    stages: [...stages],
    healthy_seconds: wishes.healthy,
    check_in_seconds: wishes.checkIn,
    max_failed: wishes.maxFailed,
  };
}

export function isExpired({ expires_at }: AgentRelease): boolean {
  return Date.parse(expires_at) <= Date.now();
}
