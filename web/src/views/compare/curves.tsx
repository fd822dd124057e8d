/** Loss curves of several runs, laid over each other. */

import { useMemo } from "preact/hooks";
import { Chart, type Line } from "../../components/chart";
import * as format from "../../format";
import { smoothed } from "../../series";
import { CurveChoices, curveChoices } from "../run/curve_choices";
import type { Curve } from "./load";
import type { Row } from "./rows";

interface CurvesProps {
  readonly rows: readonly Row[];
  readonly curves: ReadonlyMap<string, Curve>;
  readonly selected: string | null;
}

export function ComparedCurves({ rows, curves, selected }: CurvesProps) {
  const { log, weight } = curveChoices();
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
      <CurveChoices />
      <Chart
        description={
          `Loss of ${drawn.length === 1 ? "the run over its" : `${drawn.length} runs over their`} steps. Drag to zoom, double-click for all.` +
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
