/** The marks of cells. Each state has a form of its own; the colour only repeats it. */

import type { CampaignCell } from "../../api/types";
import { CELL_STATES, CELL_WORDS } from "./parts";

export function MarkShape({ state }: { readonly state: CampaignCell["state"] }) {
  return (
    <svg viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      {state === "succeeded" && (
        <>
          <circle cx="8" cy="8" r="7" fill="currentColor" />
          <path d="M4.8 8.2 7.1 10.5 11.3 5.8" fill="none" stroke="var(--card)" stroke-width="1.8" />
        </>
      )}
      {state === "failed" && (
        <>
          <rect x="1.5" y="1.5" width="13" height="13" rx="2" fill="currentColor" />
          <path d="M5 5 11 11M11 5 5 11" stroke="var(--card)" stroke-width="1.8" />
        </>
      )}
      {state === "running" && (
        <>
          <circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6" />
          <path d="M8 1.8a6.2 6.2 0 0 1 0 12.4z" fill="currentColor" />
        </>
      )}
      {state === "pending" && <circle cx="8" cy="8" r="2.2" fill="currentColor" />}
      {state === "cancelled" && (
        <>
          <rect x="2" y="2" width="12" height="12" rx="2" fill="none" stroke="currentColor" stroke-width="1.6" />
          <path d="M5 8h6" stroke="currentColor" stroke-width="1.6" />
        </>
      )}
      {state === "skipped" && (
        <>
          <circle cx="8" cy="8" r="6.2" fill="none" stroke="currentColor" stroke-width="1.6" stroke-dasharray="2.6 2" />
          <path d="M4 12 12 4" stroke="currentColor" stroke-width="1.4" />
        </>
      )}
    </svg>
  );
}

export function Legend() {
  return (
    <ul class="legend-of-cells" aria-label="What the marks mean">
      {CELL_STATES.map((state) => (
        <li key={state}>
          <span class={`cell-${state}`}>
            <MarkShape state={state} />
          </span>{" "}
          {CELL_WORDS[state]}
        </li>
      ))}
    </ul>
  );
}
