/** States in words with a mark; the colour only repeats what the word says. */

import type { Run } from "../api/types";
import { remarks } from "../names";

const TONES: Readonly<Record<string, string>> = {
  online: "good",
  succeeded: "good",
  busy: "active",
  running: "active",
  leased: "active",
  queued: "waiting",
  waiting: "waiting",
  offline: "quiet",
  cancelled: "quiet",
  failed: "bad",
  quarantined: "bad",
  revoked: "bad",
};

export function StateBadge({ state }: { readonly state: string }) {
  return (
    <span class={`badge badge-${TONES[state] ?? "quiet"}`}>
      <span class="badge-dot" aria-hidden="true" />
      {state}
    </span>
  );
}

/** The state of a run with what people should know beside it: one that throttled is not simply green. */
export function RunState({ run }: { readonly run: Run }) {
  const said = remarks(run);
  const tone = said.includes("throttled") && run.state === "succeeded" ? "waiting" : TONES[run.state];
  return (
    <span class={`badge badge-${tone ?? "quiet"}`}>
      <span class="badge-dot" aria-hidden="true" />
      {[run.state, ...said].join(", ")}
    </span>
  );
}

/** Whether live updates arrive. */
export function LiveBadge({ connected }: { readonly connected: boolean }) {
  return (
    <span class={`badge badge-${connected ? "active" : "quiet"}`}>
      <span class="badge-dot" aria-hidden="true" />
      {connected ? "live" : "reconnecting"}
    </span>
  );
}

interface ProgressProps {
  readonly label: string;
  readonly fraction: number;
  readonly text: string;
}

export function Progress({ label, fraction, text }: ProgressProps) {
  return (
    <div class="progress">
      <progress max={1} value={Math.min(1, Math.max(0, fraction))} aria-label={label} />
      <span class="progress-text">{text}</span>
    </div>
  );
}
