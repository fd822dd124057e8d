/** How loss curves are drawn, of one run or of several: the axis and the smoothing, both in the address. */

import { address, setQuery } from "../../router";

const SMOOTHINGS = [
  { text: "none", weight: 0 },
  { text: "a little", weight: 0.7 },
  { text: "more", weight: 0.9 },
  { text: "much", weight: 0.98 },
] as const;
const USUAL = "0.9";

/** Whether the axis is logarithmic, and the weight of what was before in the smoothed loss. */
export function curveChoices(): { readonly log: boolean; readonly weight: number } {
  const query = address.value?.query;
  return { log: query?.get("axis") === "log", weight: Number(query?.get("smoothing") ?? USUAL) };
}

export function CurveChoices() {
  const { log, weight } = curveChoices();
  return (
    <div class="chart-choices on-screen">
      <label class="check">
        <input
          type="checkbox"
          checked={log}
          onChange={(event) => setQuery({ axis: event.currentTarget.checked ? "log" : null })}
        />
        Logarithmic
      </label>
      <label class="check">
        Smoothing
        <select value={String(weight)} onChange={(event) => setQuery({ smoothing: event.currentTarget.value })}>
          {SMOOTHINGS.map((one) => (
            <option key={one.weight} value={String(one.weight)}>
              {one.text}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}
