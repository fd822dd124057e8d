/** Loss curves of several runs, laid over each other. */

import { useMemo } from "preact/hooks";
import { Chart, type Line } from "../../components/chart";
import * as format from "../../format";
import { address, setQuery } from "../../router";
import { smoothed } from "../../series";
import { SMOOTHINGS, USUAL_SMOOTHING } from "../run/curves";
import type { Curve } from "./load";
import type { Row } from "./rows";

interface CurvesProps {
  readonly rows: readonly Row[];
  readonly curves: ReadonlyMap<string, Curve>;
  readonly selected: string | null;
}

export function ComparedCurves({ rows, curves, selected }: CurvesProps) {
  const query = address.value?.query;
  const log = query?.get("axis") === "log";
  const weight = Number(query?.get("smoothing") ?? USUAL_SMOOTHING);
  const drawn = rows.filter(({ id }) => (curves.get(id)?.steps.length ?? 0) > 0);
  const kind = drawn.map(({ id, color }) => `${id}${color}`).join(",");
  const x = useMemo(() => {
    const all = new Set(drawn.flatMap(({ id }) => curves.get(id)?.steps.map(({ step }) => step) ?? []));
    return [...all].sort((a, b) => a - b);
  }, [curves, kind]);
  const lines = useMemo(
    () =>
      drawn.map((row): Line => {
        const steps = curves.get(row.id)?.steps ?? [];
        const losses = smoothed(
          steps.map(({ loss }) => loss),
          weight,
        );
        const at = new Map(steps.map(({ step }, index) => [step, losses[index]]));
        const style = selected === null || selected === row.id ? "line" : "faint";
        // A step that this run has not told is no gap: its line goes on to the next.
        return {
          label: `${row.name} on ${row.device}`,
          values: x.map((step) => at.get(step)),
          color: row.color,
          style,
        };
      }),
    [x, kind, weight, selected],
  );
  if (drawn.length === 0) return <p class="note">None of these runs has told a step yet.</p>;
  const cut = drawn.filter(({ id }) => curves.get(id)?.whole === false).length;
  return (
    <>
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
      <Chart
        description={
          `Loss of ${drawn.length} runs over their steps. Drag to zoom, double-click for all.` +
          (cut > 0 ? ` Of ${cut}, only the first steps are drawn; their own pages have all.` : "")
        }
        x={x}
        xLabel="Step"
        lines={lines}
        format={format.loss}
        log={log}
      />
    </>
  );
}
