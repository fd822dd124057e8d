/** What the predicted peak consists of, as one stacked bar, against what the device may give. */

import type { About, Takes } from "../api/types";
import * as format from "../format";
import { PARTS } from "./estimate";

const WIDTH = 1000;
const HEIGHT = 44;

export function MemoryBar({ takes, budget }: { readonly takes: Takes | About; readonly budget: number | null }) {
  const peak = takes.predicted_peak_bytes;
  const scale = WIDTH / Math.max(peak * 1.02, budget !== null && budget < 4 * peak ? budget * 1.05 : 0);
  let at = 0;
  const parts = PARTS.map(({ key, name }) => {
    const bytes = takes[key] ?? 0;
    const part = { key, name, bytes, x: at * scale, width: bytes * scale };
    at += bytes;
    return part;
  });
  const line = budget === null ? null : Math.min(WIDTH - 2, budget * scale);
  const verdict = budget === null ? "" : peak <= budget ? "fits" : "does not fit";
  return (
    <figure class="memory-bar">
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label(takes, budget)}>
        {parts.map(({ key, x, width }) => (
          <rect key={key} class={`part-${key}`} x={x} y={4} width={Math.max(0, width)} height={HEIGHT - 8} />
        ))}
        {line !== null && <line class="budget-line" x1={line} x2={line} y1={0} y2={HEIGHT} />}
      </svg>
      <figcaption>
        <ul class="legend">
          {parts.map(({ key, name, bytes }) => (
            <li key={key}>
              <span class={`swatch part-${key}`} aria-hidden="true" /> {name} {format.bytes(bytes)}
            </li>
          ))}
          {budget !== null && (
            <li class={peak <= budget ? "" : "over"}>
              <span class="swatch swatch-budget" aria-hidden="true" /> budget {format.bytes(budget)}: {verdict}
              {line !== null && budget * scale > WIDTH && ", far to the right"}
            </li>
          )}
        </ul>
      </figcaption>
    </figure>
  );
}

function label(takes: Takes | About, budget: number | null): string {
  const parts = PARTS.map(({ key, name }) => `${name} ${format.bytes(takes[key])}`).join(", ");
  const against = budget === null ? "" : `, of ${format.bytes(budget)} that the device may give`;
  return `Predicted peak ${format.bytes(takes.predicted_peak_bytes)}${against}: ${parts}`;
}
