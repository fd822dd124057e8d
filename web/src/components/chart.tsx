/** One uPlot chart that follows its data, the page's width and the system's colours. */

import { useEffect, useRef, useState } from "preact/hooks";
import type uPlot from "uplot";
import { useDark, useWidth } from "../hooks";

export interface Line {
  readonly label: string;
  readonly values: readonly (number | null)[];
  /** Name of the CSS colour variable, without the dashes. */
  readonly color: string;
  readonly style: "line" | "faint" | "points";
}

interface ChartProps {
  /** What a person who cannot see the drawing should know. */
  readonly description: string;
  readonly x: readonly number[];
  readonly xLabel: string;
  readonly lines: readonly Line[];
  readonly format: (value: number) => string;
  /** Written behind the numbers of the y axis. */
  readonly unit?: string;
  readonly fromZero?: boolean;
}

const HEIGHT = 240;
/** Distances between marks of the x axis, which counts steps: there is no step 2.5. */
const WHOLE_STEPS = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000].flatMap((power) => [power, 2 * power, 5 * power]);

function series(line: Line, color: string, format: (value: number) => string): uPlot.Series {
  return {
    label: line.label,
    stroke: line.style === "faint" ? `${color}66` : color,
    width: line.style === "line" ? 2 : 1,
    points: line.style === "points" ? { show: true, size: 4, fill: color, width: 0 } : { show: false },
    ...(line.style === "points" ? { paths: () => null } : {}),
    value: (_plot, value: number | null) => (value === null ? "–" : format(value)),
  };
}

export function Chart({ description, x, xLabel, lines, format, unit = "", fromZero = false }: ChartProps) {
  const [frame, width] = useWidth<HTMLDivElement>();
  const plot = useRef<uPlot | null>(null);
  const Plot = usePlotter();
  const dark = useDark();
  const kind = lines.map((line) => `${line.label}:${line.color}:${line.style}`).join("|");
  const data = [x, ...lines.map((line) => line.values)] as uPlot.AlignedData;
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    if (!frame.current || !Plot || width === 0) return;
    const theme = getComputedStyle(frame.current);
    const color = (name: string) => theme.getPropertyValue(`--${name}`).trim();
    const axis = { stroke: color("ink-2"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
    const font = `12px ${theme.fontFamily}`;
    const options: uPlot.Options = {
      width,
      height: HEIGHT,
      scales: { x: { time: false }, y: { range: (_plot, low, high) => yRange(low, high, fromZero) } },
      axes: [
        { ...axis, font, size: 32, incrs: WHOLE_STEPS },
        { ...axis, font, size: 64, values: (_plot, values) => values.map((value) => tick(value) + unit) },
      ],
      series: [{ label: xLabel }, ...lines.map((line) => series(line, color(line.color), format))],
      legend: { markers: { width: 2 } },
    };
    plot.current = new Plot(options, latest.current, frame.current);
    return () => {
      plot.current?.destroy();
      plot.current = null;
    };
  }, [Plot, width, dark, kind, xLabel, unit, fromZero]);

  useEffect(() => {
    plot.current?.setData(latest.current);
  }, [x, lines]);

  return (
    <figure class="chart">
      <div ref={frame} class="chart-frame" />
      <figcaption>{description}</figcaption>
    </figure>
  );
}

/** The plotting library; it is half of the page's code and only runs have charts, so it is fetched when one is shown. */
function usePlotter(): typeof uPlot | null {
  const [loaded, setLoaded] = useState<{ readonly plot: typeof uPlot } | null>(null);
  useEffect(() => {
    let shown = true;
    void import("uplot").then((module) => {
      if (shown) setLoaded({ plot: module.default });
    });
    return () => {
      shown = false;
    };
  }, []);
  return loaded?.plot ?? null;
}

/** An axis number without the zeros that a fixed precision would add: 0.5, not 0.5000. */
function tick(value: number): string {
  return String(Number(value.toPrecision(4)));
}

/** A little air around the values, and never so little that rounding errors of a constant series look like a fall. */
function yRange(low: number | null, high: number | null, fromZero: boolean): [number, number] {
  const bottom = fromZero ? 0 : (low ?? 0);
  const top = high ?? 1;
  const air = Math.max((top - bottom) * 0.08, Math.abs(top) * 0.02) || 1;
  return [fromZero ? 0 : bottom - air, top + air];
}
