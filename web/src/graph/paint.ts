/** Draws a graph on a canvas: only what is in sight, and only as fine as can be seen. */

import { lightness, mixed } from "./colours";
import { type Drawing, HEAD, type Line, type Placed, textOf } from "./layout";

/** Where the drawing lies on the canvas: scale, and the place of its corner. */
export interface View {
  readonly k: number;
  readonly x: number;
  readonly y: number;
}

export interface Look {
  readonly fills: ReadonlyMap<string, string>;
  readonly card: string;
  readonly page: string;
  readonly ink: string;
  readonly faint: string;
  readonly line: string;
  readonly accent: string;
  /** Of the box that is selected. */
  readonly selected: string | null;
}

const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
const LETTER = 6.4;
const BOLD = 7.4;
const READABLE = 0.5;
const FINE = 0.35;
/** In pixels: shorter lines and lower boxes are not drawn, or only as a spot. */
const LEAST = 4;

export function paint(
  context: CanvasRenderingContext2D,
  size: { readonly width: number; readonly height: number; readonly ratio: number },
  drawing: Drawing,
  view: View,
  look: Look,
): void {
  const { k } = view;
  context.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
  context.fillStyle = look.page;
  context.fillRect(0, 0, size.width, size.height);
  context.translate(view.x, view.y);
  context.scale(k, k);
  const [left, top] = [-view.x / k, -view.y / k];
  const [right, bottom] = [left + size.width / k, top + size.height / k];
  const inSight = drawing.placed.filter(
    (one) => one.x < right && one.x + one.width > left && one.y < bottom && one.y + one.height > top,
  );
  frames(context, inSight, look, k);
  const lines = drawing.lines.filter(({ bounds: [l, t, r, b] }) => l < right && r > left && t < bottom && b > top);
  links(context, lines, look, k);
  solids(context, inSight, look, k);
  if (k >= READABLE) texts(context, inSight, look);
  const chosen = look.selected === null ? undefined : drawing.byId.get(look.selected);
  if (!chosen) return;
  context.strokeStyle = look.accent;
  context.lineWidth = Math.max(2.5, 2 / k);
  context.strokeRect(chosen.x, chosen.y, chosen.width, chosen.height);
}

/** Modules that are open, as frames around their parts. */
function frames(context: CanvasRenderingContext2D, placed: readonly Placed[], look: Look, k: number): void {
  context.lineWidth = 1 / Math.max(k, 0.4);
  context.strokeStyle = look.line;
  context.fillStyle = mixed(look.page, look.card, 0.55);
  for (const one of placed) {
    if (!one.open || one.width * k < LEAST) continue;
    context.fillRect(one.x, one.y, one.width, one.height);
    context.strokeRect(one.x, one.y, one.width, one.height);
  }
}

function links(context: CanvasRenderingContext2D, lines: readonly Line[], look: Look, k: number): void {
  const own = lines.filter(({ from, to }) => from.id === look.selected || to.id === look.selected);
  context.lineWidth = Math.max(1.1, 0.6 / k);
  context.strokeStyle = look.faint;
  for (const across of [false, true]) {
    context.globalAlpha = across ? 0.28 : 0.8;
    context.beginPath();
    for (const line of lines) if (line.across === across && isLong(line, k)) trace(context, line, k);
    context.stroke();
  }
  context.globalAlpha = 1;
  if (k >= FINE) {
    context.fillStyle = look.faint;
    context.beginPath();
    for (const line of lines) if (!line.across) arrow(context, line);
    context.fill();
  }
  context.strokeStyle = look.accent;
  context.fillStyle = look.accent;
  context.lineWidth = Math.max(2, 1.5 / k);
  for (const line of own) {
    context.beginPath();
    trace(context, line, 1);
    context.stroke();
    context.beginPath();
    arrow(context, line);
    context.fill();
  }
}

const isLong = ({ bounds: [left, top, right, bottom] }: Line, k: number) =>
  Math.max(right - left, bottom - top) * k >= LEAST;

/** Far away a straight line does. */
function trace(context: CanvasRenderingContext2D, { points: p, across }: Line, k: number): void {
  context.moveTo(p[0] ?? 0, p[1] ?? 0);
  if (k < FINE) context.lineTo(p.at(-2) ?? 0, p.at(-1) ?? 0);
  else if (across) context.bezierCurveTo(p[2] ?? 0, p[3] ?? 0, p[4] ?? 0, p[5] ?? 0, p[6] ?? 0, p[7] ?? 0);
  else for (let at = 2; at < p.length; at += 2) context.lineTo(p[at] ?? 0, p[at + 1] ?? 0);
}

function arrow(context: CanvasRenderingContext2D, { points }: Line): void {
  const [fromX = 0, fromY = 0, x = 0, y = 0] = points.slice(-4);
  const angle = Math.atan2(y - fromY, x - fromX);
  context.moveTo(x, y);
  for (const side of [-0.42, 0.42]) context.lineTo(x - 7 * Math.cos(angle + side), y - 7 * Math.sin(angle + side));
}

function solids(context: CanvasRenderingContext2D, placed: readonly Placed[], look: Look, k: number): void {
  context.lineWidth = 1;
  context.strokeStyle = look.line;
  for (const one of placed) {
    if (one.open) continue;
    context.fillStyle = look.fills.get(one.box.id) ?? look.card;
    if (k < FINE) {
      context.fillRect(one.x, one.y, one.width, one.height);
      continue;
    }
    context.beginPath();
    context.roundRect(one.x, one.y, one.width, one.height, one.box.node ? 5 : 12);
    context.fill();
    context.stroke();
  }
}

function texts(context: CanvasRenderingContext2D, placed: readonly Placed[], look: Look): void {
  context.textBaseline = "middle";
  for (const one of placed) {
    const [first, second] = textOf(one.box);
    const room = Math.floor((one.width - 16) / BOLD);
    const fill = one.open ? look.card : (look.fills.get(one.box.id) ?? look.card);
    const light = lightness(fill) > 0.5;
    context.fillStyle = light === lightness(look.ink) < 0.5 ? look.ink : light ? "#16202b" : "#ffffff";
    if (one.open) {
      context.font = `600 12px ${FONT}`;
      context.fillText(`− ${cut(first, room - 2)}`, one.x + 9, one.y + HEAD / 2 + 2);
      continue;
    }
    context.font = `600 12px ${FONT}`;
    context.fillText(cut(one.box.node ? first : `+ ${first}`, room), one.x + 8, one.y + 14);
    context.font = `11px ${FONT}`;
    context.fillText(cut(second, Math.floor((one.width - 16) / LETTER)), one.x + 8, one.y + 30);
  }
}

const cut = (text: string, room: number) => (text.length <= room ? text : `${text.slice(0, Math.max(1, room - 1))}…`);

/** The innermost box at a place of the drawing; of an open module only its head counts, as its parts lie in it. */
export function boxAt(drawing: Drawing, x: number, y: number): Placed | null {
  let found: Placed | null = null;
  for (const one of drawing.placed) {
    const tall = one.open ? HEAD + 4 : one.height;
    if (x >= one.x && x <= one.x + one.width && y >= one.y && y <= one.y + tall) found = one;
  }
  return found;
}

/** The view that shows all of a drawing. */
export function fitted(drawing: Drawing, width: number, height: number): View {
  const k = Math.min(1.25, width / Math.max(1, drawing.width), height / Math.max(1, drawing.height));
  return { k, x: (width - drawing.width * k) / 2, y: (height - drawing.height * k) / 2 };
}

/** The nearest box in a direction: what lies aside counts double. */
export function neighbour(
  drawing: Drawing,
  from: string | null,
  [x, y]: readonly [number, number],
): Placed | undefined {
  const start = from === null ? undefined : drawing.byId.get(from);
  if (!start) return drawing.placed[0];
  const middle = (one: Placed) => [one.x + one.width / 2, one.y + (one.open ? 12 : one.height / 2)] as const;
  const [ownX, ownY] = middle(start);
  let best: Placed | undefined;
  let least = Infinity;
  for (const one of drawing.placed) {
    const [otherX, otherY] = middle(one);
    const [right, down] = [otherX - ownX, otherY - ownY];
    const along = right * x + down * y;
    const distance = along + 2 * Math.abs(x === 0 ? right : down);
    if (one === start || along <= 1 || distance >= least) continue;
    [best, least] = [one, distance];
  }
  return best;
}
