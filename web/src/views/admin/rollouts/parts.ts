/** How rollouts and their devices stand, and what may be done with one, in words. */

import type { Rollout, RolloutDevice } from "../../../api/types";
import type { Deed } from "../../../components/deed";
import type { Tone } from "../../../components/tone_badge";

export const ROLLOUT_TONES: Readonly<Record<Rollout["state"], Tone>> = {
  running: "active",
  paused: "waiting",
  stopped: "bad",
  succeeded: "good",
  cancelled: "quiet",
  reverting: "active",
  reverted: "quiet",
};

export const DEVICE_TONES: Readonly<Record<RolloutDevice["state"], Tone>> = {
  pending: "quiet",
  offered: "waiting",
  installing: "active",
  healthy: "good",
  failed: "bad",
  rolled_back: "bad",
  unsupported: "quiet",
};

export const DEVICE_STATES = Object.keys(DEVICE_TONES) as readonly RolloutDevice["state"][];

/** A state as people read it: "rolled back". */
export function stateText(state: RolloutDevice["state"]): string {
  return state.replace("_", " ");
}

/** How many devices a rollout has, in one of some states or in all. */
export function deviceCount(rollout: Rollout, states?: readonly RolloutDevice["state"][]): number {
  return (states ?? DEVICE_STATES).reduce((sum, state) => sum + (rollout.devices[state] ?? 0), 0);
}

/** "the canary", "stage 2 of 3, to 50 % of the devices". */
export function stageText({ stage, stages, canary }: Rollout): string {
  if (stage === 0) return canary === 1 ? "the canary, 1 device" : `the canary, ${canary} devices`;
  return `stage ${stage} of ${stages.length}, to ${stages[stage - 1] ?? 100} % of the devices`;
}

export const DEEDS: readonly Deed<Rollout["state"]>[] = [
  {
    verb: "Pause",
    doing: "Pausing",
    path: "pause",
    from: ["running"],
    warning: "Nothing more is offered to devices until it goes on.",
  },
  {
    verb: "Resume",
    doing: "Resuming",
    path: "resume",
    from: ["paused", "stopped"],
    warning: "It goes on where it was. If it stopped because devices failed, more of them may fail.",
  },
  {
    verb: "Cancel",
    doing: "Cancelling",
    path: "cancel",
    from: ["running", "paused", "stopped", "reverting"],
    warning: "It ends now: devices keep the version that they have. It cannot go on later.",
  },
  {
    verb: "Roll back",
    doing: "Rolling back",
    path: "roll-back",
    from: ["running", "paused", "stopped", "succeeded"],
    warning: "Devices that took the release are told to return to the version before.",
  },
];
