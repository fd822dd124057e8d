/** Ways along a chart's x axis, besides the drag that zooms: the wheel with Ctrl, a drag with Shift, and keys. */

import type uPlot from "uplot";

export interface Span {
  readonly from: number;
  readonly to: number;
}

const STEP = 0.2;
const ZOOM = 1.4;
/** Fewer points than these are not worth looking at. */
const FEWEST = 4;

/** The part of `whole` that is `factor` times as wide as `shown`, where `at` (from 0 to 1) of it stays in its place. */
export function zoomed(shown: Span, whole: Span, factor: number, at: number): Span {
  const most = whole.to - whole.from;
  const width = Math.min(most, Math.max((shown.to - shown.from) * factor, Math.min(FEWEST, most)));
  const from = shown.from + (shown.to - shown.from - width) * at;
  return within({ from, to: from + width }, whole);
}

/** What is shown, moved by a distance as far as there is something to show. */
export function moved(shown: Span, whole: Span, by: number): Span {
  return within({ from: shown.from + by, to: shown.to + by }, whole);
}

function within({ from, to }: Span, whole: Span): Span {
  const width = to - from;
  const start = Math.max(whole.from, Math.min(from, whole.to - width));
  return { from: start, to: start + width };
}

/** Makes a chart follow wheel, drag and keys; `onMove` says whether all of it is shown then. */
export function pannable(plot: uPlot, frame: HTMLElement, onMove: (all: boolean) => void): () => void {
  const whole = (): Span => ({ from: plot.data[0][0] ?? 0, to: plot.data[0].at(-1) ?? 1 });
  const shown = (): Span => ({ from: plot.scales["x"]?.min ?? 0, to: plot.scales["x"]?.max ?? 1 });
  const show = (span: Span) => {
    const all = whole();
    onMove(span.from <= all.from && span.to >= all.to);
    plot.setScale("x", { min: span.from, max: span.to });
  };
  const wheel = (event: WheelEvent) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = plot.over.getBoundingClientRect();
    show(zoomed(shown(), whole(), event.deltaY > 0 ? ZOOM : 1 / ZOOM, (event.clientX - box.left) / box.width));
  };
  let last: number | null = null;
  const down = (event: PointerEvent) => {
    if (!event.shiftKey) return;
    last = event.clientX;
    plot.over.setPointerCapture(event.pointerId);
  };
  const move = (event: PointerEvent) => {
    if (last === null) return;
    const span = shown();
    show(moved(span, whole(), ((last - event.clientX) / plot.over.clientWidth) * (span.to - span.from)));
    last = event.clientX;
  };
  const up = () => (last = null);
  const key = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const span = shown();
    const step = STEP * (span.to - span.from);
    if (event.key === "ArrowLeft") show(moved(span, whole(), -step));
    else if (event.key === "ArrowRight") show(moved(span, whole(), step));
    else if (event.key === "+") show(zoomed(span, whole(), 1 / ZOOM, 0.5));
    else if (event.key === "-") show(zoomed(span, whole(), ZOOM, 0.5));
    else if (event.key === "0") show(whole());
    else return;
    event.preventDefault();
  };
  plot.over.addEventListener("wheel", wheel, { passive: false });
  plot.over.addEventListener("pointerdown", down);
  plot.over.addEventListener("pointermove", move);
  plot.over.addEventListener("pointerup", up);
  frame.addEventListener("keydown", key);
  return () => frame.removeEventListener("keydown", key); // the others go with the chart
}
