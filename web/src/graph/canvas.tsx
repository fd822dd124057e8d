/** A graph that one moves about in: wheel and drag, keys, a click that selects and one that unfolds. */

import { select } from "d3-selection";
import { zoom, type ZoomBehavior, zoomIdentity, type ZoomTransform } from "d3-zoom";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { useDark, useWidth } from "../hooks";
import type { Palette } from "./colours";
import type { Drawing, Placed } from "./layout";
import { boxAt, fitted, type Look, neighbour, paint, type View } from "./paint";

export interface GraphCanvasProps {
  readonly drawing: Drawing;
  readonly fills: (palette: Palette) => ReadonlyMap<string, string>;
  readonly selected: string | null;
  /** Counts what is asked to be brought into the middle. */
  readonly wanted: { readonly id: string; readonly turn: number } | null;
  readonly label: string;
  readonly onSelect: (id: string | null) => void;
  readonly onToggle: (id: string) => void;
}

const STEP = 70;
const ZOOM = 1.4;
const LEAST = 0.01;
const MOST = 4;

export function paletteOf(): Palette {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    card: value("--card"),
    heat: value("--graph-heat"),
    trained: {
      all: value("--graph-all"),
      part: value("--graph-part"),
      frozen: value("--graph-frozen"),
      none: value("--card"),
    },
  };
}

function lookOf(fills: GraphCanvasProps["fills"], selected: string | null): Look {
  const style = getComputedStyle(document.documentElement);
  const value = (name: string) => style.getPropertyValue(name).trim();
  return {
    fills: fills(paletteOf()),
    card: value("--card"),
    page: value("--page"),
    ink: value("--ink"),
    faint: value("--ink-2"),
    line: value("--line-strong"),
    accent: value("--accent"),
    selected,
  };
}

type Zoomed = ZoomBehavior<HTMLCanvasElement, unknown>;

export function GraphCanvas(props: GraphCanvasProps) {
  const { drawing, fills, selected, wanted, label, onSelect, onToggle } = props;
  const [frame, width] = useWidth<HTMLDivElement>();
  const canvas = useRef<HTMLCanvasElement>(null);
  const dark = useDark();
  const look = useMemo(() => lookOf(fills, selected), [fills, selected, dark]);
  const latest = useRef({ drawing, look });
  const stage = useRef<Stage | null>(null);

  useEffect(() => {
    if (!canvas.current || width === 0) return;
    stage.current ??= new Stage(canvas.current, () => latest.current);
    stage.current.resize();
  }, [width]);
  useEffect(() => () => stage.current?.end(), []);
  useEffect(() => {
    const before = latest.current.drawing;
    latest.current = { drawing, look };
    stage.current?.becomes(before, drawing, selected);
  }, [drawing, look, selected]);
  useEffect(() => {
    if (wanted) stage.current?.centre(wanted.id);
  }, [wanted, drawing]);

  const click = (event: MouseEvent) => {
    const found = stage.current?.at(event);
    onSelect(found?.box.id ?? null);
    if (found && !found.box.node) onToggle(found.box.id);
  };
  const keys = (event: KeyboardEvent) => {
    const current = stage.current;
    if (!current || event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = ARROWS[event.key];
    if (event.key === "Enter" && selected !== null) onToggle(selected);
    else if (event.key === "+") current.by(ZOOM);
    else if (event.key === "-") current.by(1 / ZOOM);
    else if (event.key === "0") current.fit();
    else if (event.key === "Escape") onSelect(null);
    else if (arrow && event.shiftKey) current.pan(-arrow[0] * STEP, -arrow[1] * STEP);
    else if (arrow) {
      const next = neighbour(drawing, selected, arrow);
      if (!next) return;
      onSelect(next.box.id);
      current.reveal(next);
    } else return;
    event.preventDefault();
  };
  return (
    <div>
      <div class="actions graph-tools">
        <button type="button" class="button" onClick={() => stage.current?.by(ZOOM)}>
          Closer
        </button>
        <button type="button" class="button" onClick={() => stage.current?.by(1 / ZOOM)}>
          Farther
        </button>
        <button type="button" class="button" onClick={() => stage.current?.fit()}>
          All of it
        </button>
      </div>
      <div
        ref={frame}
        class="graph-frame"
        tabIndex={0}
        role="application"
        aria-label={label}
        aria-describedby="graph-keys"
        onKeyDown={keys}
      >
        <canvas ref={canvas} aria-hidden="true" onClick={click} data-boxes={drawing.placed.length} />
      </div>
    </div>
  );
}

const ARROWS: Readonly<Record<string, readonly [number, number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** The canvas, and where on it the drawing lies. */
class Stage {
  private readonly zoomed: Zoomed;
  private readonly context: CanvasRenderingContext2D | null;
  private view: View = { k: 1, x: 0, y: 0 };
  private frame = 0;
  private size = { width: 0, height: 0, ratio: 1 };
  private moved = false;

  constructor(
    private readonly canvas: HTMLCanvasElement,
    private readonly what: () => { readonly drawing: Drawing; readonly look: Look },
  ) {
    this.context = canvas.getContext("2d", { alpha: false });
    this.zoomed = zoom<HTMLCanvasElement, unknown>()
      .scaleExtent([LEAST, MOST])
      .on("zoom", ({ transform, sourceEvent }: { transform: ZoomTransform; sourceEvent: unknown }) => {
        this.moved ||= sourceEvent !== null && sourceEvent !== undefined;
        this.view = { k: transform.k, x: transform.x, y: transform.y };
        this.plan();
      });
    select(canvas).call(this.zoomed).on("dblclick.zoom", null);
  }

  resize(): void {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = Math.min(2, devicePixelRatio || 1);
    this.size = { width, height, ratio };
    [this.canvas.width, this.canvas.height] = [width * ratio, height * ratio];
    if (this.moved) this.plan();
    else this.fit();
  }

  /** Another drawing: the box in which something was unfolded stays where it is, as long as a person has looked around. */
  becomes(before: Drawing, after: Drawing, anchor: string | null): void {
    if (before === after) return this.plan();
    const [old, young] = anchor === null ? [] : [before.byId.get(anchor), after.byId.get(anchor)];
    if (!this.moved || !old || !young) return this.fit();
    const { k, x, y } = this.view;
    this.show({ k, x: x + (old.x - young.x) * k, y: y + (old.y - young.y) * k });
  }

  fit(): void {
    this.moved = false;
    this.show(fitted(this.what().drawing, this.size.width, this.size.height));
  }

  by(factor: number): void {
    this.moved = true;
    select(this.canvas).call(this.zoomed.scaleBy, factor);
  }

  pan(x: number, y: number): void {
    this.moved = true;
    this.show({ ...this.view, x: this.view.x + x, y: this.view.y + y });
  }

  centre(id: string): void {
    const one = this.what().drawing.byId.get(id);
    if (!one) return;
    this.moved = true;
    const k = Math.max(this.view.k, 0.9);
    const [x, y] = [one.x + one.width / 2, one.y + Math.min(one.height, this.size.height / k) / 2];
    this.show({ k, x: this.size.width / 2 - x * k, y: this.size.height / 2 - y * k });
  }

  /** Moves no more than is needed to see a box. */
  reveal({ x, y, width, height }: Placed): void {
    const { k } = this.view;
    const shift = (from: number, to: number, room: number) =>
      from < 10 ? 10 - from : to > room - 10 ? room - 10 - to : 0;
    const [left, top] = [x * k + this.view.x, y * k + this.view.y];
    this.pan(
      shift(left, left + width * k, this.size.width),
      shift(top, top + Math.min(height * k, 40), this.size.height),
    );
  }

  at(event: MouseEvent): Placed | null {
    const box = this.canvas.getBoundingClientRect();
    const { k, x, y } = this.view;
    return boxAt(this.what().drawing, (event.clientX - box.left - x) / k, (event.clientY - box.top - y) / k);
  }

  end(): void {
    cancelAnimationFrame(this.frame);
  }

  private show({ k, x, y }: View): void {
    const within = Math.max(LEAST, Math.min(MOST, k));
    select(this.canvas).call(this.zoomed.transform, zoomIdentity.translate(x, y).scale(within));
  }

  private plan(): void {
    this.frame ||= requestAnimationFrame(() => {
      this.frame = 0;
      const { drawing, look } = this.what();
      if (this.context) paint(this.context, this.size, drawing, this.view, look);
    });
  }
}
