/** One uPlot chart that follows its data, the page's width and the system's colours. */

import { useEffect, useId, useRef } from "preact/hooks";
import type uPlot from "uplot";
import { grouped, timestamp } from "../format";
import { useDark, useFetched, useNear, useWidth } from "../hooks";
import { inTurns } from "../turns";
import { pannable } from "./pan";

export interface Line {
  readonly label: string;
  /** Null is a gap; where nothing is told (undefined), the line goes on to the next value. */
  readonly values: readonly (number | null | undefined)[];
  /** Name of the CSS colour variable, without the dashes. */
  readonly color: string;
  readonly style: "line" | "faint" | "points";
}

interface ChartProps {
  /** What a person who cannot see the drawing should know. */
  readonly description: string;
  readonly x: readonly number[];
  readonly xLabel: string;
  /** Whether `x` is the time in seconds, rather than a count of steps. */
  readonly time?: boolean;
  readonly lines: readonly Line[];
  readonly format: (value: number) => string;
  /** Written behind the numbers of the y axis. */
  readonly unit?: string;
  readonly fromZero?: boolean;
  /** Whether the y axis is logarithmic; what is not above zero is left out then. */
  readonly log?: boolean;
  /** The largest value of the y axis; what is above is drawn at its edge. */
  readonly most?: number | null;
}

/** Charts of one page share the cursor. */
const CURSOR = "charts";
const HEIGHT = 240;
/** Points of steps are many, those of runs few. */
const POINT = 4;
const RARE_POINT = 8;
/** Distances between marks of the x axis, which counts steps: there is no step 2.5. */
const WHOLE_STEPS = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000].flatMap((power) => [power, 2 * power, 5 * power]);
/** Marks of an axis of time, by their distance in seconds, as uPlot's documentation of `axes.values` has it: its own are of
 * twelve hours. */
const DAY = "\n{YYYY}-{MM}-{DD}";
const CLOCKS: uPlot.Axis.Values = [
  [3600 * 24 * 28, "{MMM}", "\n{YYYY}", null, null, null, null, null, 1],
  [3600 * 24, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", DAY, null, DAY, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DAY, null, DAY, null, null, null, 1],
  [0.001, "{ss}.{fff}", `${DAY} {HH}:{mm}`, null, `${DAY} {HH}:{mm}`, null, "\n{HH}:{mm}", null, 1],
];

function series(line: Line, color: string, format: (value: number) => string, size: number): uPlot.Series {
  return {
    label: line.label,
    stroke: line.style === "faint" ? `${color}66` : color,
    width: line.style === "line" ? 2 : 1,
    points: line.style === "points" ? { show: true, size, fill: color, width: 0 } : { show: false },
    ...(line.style === "points" ? { paths: () => null } : {}),
    value: (_plot, value: number | null | undefined) => (typeof value !== "number" ? "–" : format(value)),
  };
}

/** What of uPlot is the chart's own, for a frame of this width. `onSelect` is called when a person has zoomed. */
function optionsOf(props: ChartProps, frame: HTMLElement, width: number, onSelect: () => void): uPlot.Options {
  const { xLabel, time = false, lines, format, unit = "", fromZero = false, log = false } = props;
  const theme = getComputedStyle(frame);
  const color = (name: string) => theme.getPropertyValue(`--${name}`).trim();
  const axis = { stroke: color("ink-2"), grid: { stroke: color("line"), width: 1 }, ticks: { show: false } };
  const font = `12px ${theme.fontFamily}`;
  return {
    width,
    height: HEIGHT,
    scales: {
      x: { time },
      y: log ? { distr: 3 } : { range: (_plot, low, high) => yRange(low, high, fromZero) },
    },
    cursor: { sync: { key: CURSOR }, bind: { mousedown: unlessMoved } },
    hooks: { setSelect: [(drawn) => drawn.select.width > 0 && onSelect()] },
    axes: [
      time
        ? { ...axis, font, size: 48, values: CLOCKS }
        : { ...axis, font, size: 32, incrs: WHOLE_STEPS, values: stepTexts },
      {
        ...axis,
        font,
        size: 64,
        values: (_plot, values) => values.map((value: number | null) => (value === null ? "" : tick(value) + unit)),
      },
    ],
    series: [
      { label: xLabel, value: time ? clockText : stepText },
      ...lines.map((line) => series(line, color(line.color), format, time ? RARE_POINT : POINT)),
    ],
    legend: { markers: { width: 2 } },
  };
}

export function Chart(props: ChartProps) {
  const { description, x, xLabel, time = false, lines, unit = "", fromZero = false, log = false, most = null } = props;
  const [frame, width] = useWidth<HTMLDivElement>();
  const near = useNear(frame);
  const plot = useRef<uPlot | null>(null);
  const before = useRef(false);
  const Plot = useFetched("uplot", plotter);
  const dark = useDark();
  const caption = useId();
  const kind = lines.map((line) => `${line.label}:${line.color}:${line.style}`).join("|");
  const shown = (value: number | null | undefined) => {
    if (typeof value !== "number") return value;
    if (log && value <= 0) return null;
    return most === null ? value : Math.min(value, most);
  };
  const data = [x, ...lines.map((line) => (log || most !== null ? line.values.map(shown) : line.values))];
  const zoomed = useRef(false);
  const latest = useRef(data);
  latest.current = data;

  useEffect(() => {
    const element = frame.current;
    if (!element || !Plot || width === 0) return;
    let release = () => {};
    const draw = function* () {
      before.current = true;
      zoomed.current = false;
      const zoomedNow = (some: boolean) => {
        zoomed.current = some;
      };
      const options = optionsOf(props, element, width, () => zoomedNow(true));
      const given = latest.current;
      let begin = () => {};
      const drawn = new Plot(options, given as uPlot.AlignedData, (_plot, init) => {
        begin = init as () => void;
      });
      release = () => drawn.destroy();
      yield;
      element.append(drawn.root);
      begin();
      if (latest.current !== given) drawn.setData(latest.current as uPlot.AlignedData);
      drawn.over.addEventListener("dblclick", () => zoomedNow(false));
      const stay = pannable(drawn, element, (all) => zoomedNow(!all));
      release = () => {
        stay();
        drawn.destroy();
      };
      plot.current = drawn;
    };
    // Several charts appear together, a part of each in a task; what is drawn anew, or printed, is there at once.
    let drawing: ReturnType<typeof inTurns> | undefined;
    const finish = () => {
      drawing ??= inTurns(draw());
      drawing.finish();
    };
    if (before.current) finish();
    else if (near) drawing = inTurns(draw());
    const print = () => {
      if (!plot.current) finish();
    };
    addEventListener("beforeprint", print);
    return () => {
      removeEventListener("beforeprint", print);
      drawing?.stop();
      release();
      plot.current = null;
    };
  }, [Plot, near, width, dark, kind, xLabel, time, unit, fromZero, log]);

  useEffect(() => {
    // Who has zoomed stays there while steps come in; a double click shows everything again.
    plot.current?.setData(latest.current as uPlot.AlignedData, !zoomed.current);
    if (zoomed.current) plot.current?.redraw();
  }, [x, lines, most]);

  return (
    <figure class="chart">
      <div ref={frame} class="chart-frame" role="group" aria-labelledby={caption} tabIndex={0} />
      <figcaption id={caption}>{description}</figcaption>
    </figure>
  );
}

function clockText(_plot: uPlot, seconds: number | null): string {
  return seconds === null ? "–" : timestamp(new Date(seconds * 1000).toISOString());
}

const stepText = (_plot: uPlot, step: number | null) => (step === null ? "–" : grouped(step));
const stepTexts = (_plot: uPlot, steps: readonly number[]) => steps.map(grouped);

/** A drag selects what to zoom to, but for one with Shift, which moves. */
const unlessMoved: uPlot.Cursor.MouseListenerFactory = (_plot, _target, select) => (event) =>
  event.shiftKey ? null : select(event);

/** The plotting library; it is half of the page's code and only runs have charts, so it is fetched when one is shown. */
const plotter = () => import("uplot").then((module) => module.default);

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
