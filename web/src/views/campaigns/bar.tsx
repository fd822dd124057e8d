/** How the cells of a campaign stand, as one bar: what succeeded, what failed, what else is over, what runs. */

import type { CellCounts } from "../../api/types";
import * as format from "../../format";
import { countsText, endedCount } from "./parts";

export function CellBar({ of, name }: { readonly of: CellCounts; readonly name: string }) {
  const parts: readonly (readonly [string, number])[] = [
    ["bar-succeeded", of.succeeded],
    ["bar-failed", of.failed],
    ["bar-ended", of.cancelled + of.skipped],
    ["bar-running", of.running],
  ];
  const total = Math.max(1, of.total);
  let begin = 0;
  return (
    <div class="cell-bar">
      <svg viewBox={`0 0 ${total} 1`} preserveAspectRatio="none" role="img" aria-label={`${name}: ${countsText(of)}`}>
        {parts.map(([tone, count]) => {
          const x = begin;
          begin += count;
          return count > 0 && <rect key={tone} class={tone} x={x} y="0" width={count} height="1" />;
        })}
      </svg>
      <span>
        {format.count(endedCount(of))} of {format.count(of.total)} runs over
      </span>
    </div>
  );
}
