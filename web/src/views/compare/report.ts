/** A report that needs neither the service nor a script: one file with tables and drawings, built as a document so that
 * every text is escaped. */

import { saveText } from "../../download";
import * as format from "../../format";
import type { Curve } from "./load";
import { COLUMNS, difference, grid, type Row, scale } from "./rows";
import { type Cost, drawing, HEIGHT, WIDTH } from "./scatter";

const XHTML = "http://www.w3.org/1999/xhtml";
const SVG = "http://www.w3.org/2000/svg";
/** So many points of a curve are kept. */
const MOST_POINTS = 400;
/** The colours of the page's runs, for a white sheet. */
const COLORS = ["#1459b3", "#b4500f", "#17733f", "#8a3ab0", "#b3261e", "#0f6b64", "#6b5a00", "#55606b"];
const STYLE = `
body { font: 15px/1.5 system-ui, sans-serif; color: #16202b; background: #fff; max-width: 70rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; width: 100%; font-size: 0.9rem; font-variant-numeric: tabular-nums }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.8rem 0.3rem 0; border-bottom: 1px solid #dfe4ea }
small { display: block; color: #4d5a68 }
svg { width: 100%; max-width: 50rem; height: auto; font-size: 12px }
svg.dot { width: 10px }
`;

type Children = readonly (Node | string)[];

/** Makes elements of one document. */
class Maker {
  readonly document = document.implementation.createDocument(
    XHTML,
    "html",
    document.implementation.createDocumentType("html", "", ""),
  );

  html(name: string, children: Children = [], attributes: Readonly<Record<string, string>> = {}): Element {
    return this.element(XHTML, name, children, attributes);
  }

  svg(name: string, attributes: Readonly<Record<string, string | number>>, children: Children = []): Element {
    return this.element(SVG, name, children, attributes);
  }

  private element(
    space: string,
    name: string,
    children: Children,
    attributes: Readonly<Record<string, string | number>>,
  ): Element {
    const made = this.document.createElementNS(space, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
    made.append(...children.map(printable));
    return made;
  }
}

/** Text without the characters that no XML file may hold. */
function printable(child: Node | string): Node | string {
  return typeof child === "string"
    ? child.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]/g, "�")
    : child;
}

export interface Reported {
  readonly rows: readonly Row[];
  readonly base: Row | undefined;
  readonly curves: ReadonlyMap<string, Curve>;
  readonly cost: Cost;
  readonly made: Date;
}

export function reportText({ rows, base, curves, cost, made }: Reported): string {
  const maker = new Maker();
  const root = maker.document.documentElement;
  const title = `Comparison of ${rows.length} runs`;
  const policy = { "http-equiv": "Content-Security-Policy", content: "default-src 'none'; style-src 'unsafe-inline'" };
  root.setAttribute("lang", "en");
  root.append(
    maker.html("head", [
      maker.html("meta", [], { charset: "utf-8" }),
      maker.html("meta", [], policy),
      maker.html("meta", [], { name: "viewport", content: "width=device-width" }),
      maker.html("title", [title]),
    ]),
    maker.html("body", [
      maker.html("h1", [title]),
      maker.html("p", [
        `Made ${format.utc(made.toISOString())}. ${base ? `Base: ${base.name} on ${base.device}.` : ""}`,
      ]),
      maker.html("h2", ["Figures"]),
      figures(maker, rows, base),
      ...matrix(maker, rows),
      maker.html("h2", ["Accuracy against cost"]),
      scatter(maker, rows, cost),
      maker.html("h2", ["Loss"]),
      losses(maker, rows, curves),
    ]),
  );
  // The page's own policy refuses a style element, even in a document that is not shown.
  return new XMLSerializer()
    .serializeToString(maker.document)
    .replace("</head>", () => `<style>${STYLE}</style></head>`);
}

function colorOf(row: Row): string {
  return COLORS[Number(row.color.replace(/\D/g, "")) - 1] ?? "#000";
}

function dot(maker: Maker, row: Row): Element {
  const circle = maker.svg("circle", { cx: 5, cy: 5, r: 5, fill: colorOf(row) });
  return maker.svg("svg", { viewBox: "0 0 10 10", width: 10, height: 10, class: "dot" }, [circle]);
}

function table(maker: Maker, head: readonly string[], body: readonly Children[]): Element {
  return maker.html("table", [
    maker.html("thead", [
      maker.html(
        "tr",
        head.map((text) => maker.html("th", [text])),
      ),
    ]),
    maker.html(
      "tbody",
      body.map((cells) => maker.html("tr", cells)),
    ),
  ]);
}

function figures(maker: Maker, rows: readonly Row[], base: Row | undefined): Element {
  const cells = (row: Row) => [
    maker.html("td", [dot(maker, row), ` ${row.name} `, maker.html("small", [row.id])]),
    maker.html("td", [row.device]),
    ...COLUMNS.map((column) =>
      maker.html("td", [column.text(row[column.key]), maker.html("small", [difference(column, row, base)])]),
    ),
  ];
  return table(maker, ["Run", "Device", ...COLUMNS.map(({ name }) => name)], rows.map(cells));
}

function matrix(maker: Maker, rows: readonly Row[]): Element[] {
  const of = grid(rows);
  if (!of) return [];
  const cell = ([newest]: readonly Row[]) =>
    newest
      ? [
          format.percent(newest.accuracy),
          maker.html("small", [`${format.bytes(newest.peak)}, ${format.milliseconds(newest.step)}`]),
        ]
      : ["no run"];
  const body = of.devices.map((device) => [
    maker.html("th", [device]),
    ...of.schemes.map((scheme) => maker.html("td", cell(of.cell(device, scheme)))),
  ]);
  return [maker.html("h2", ["Devices by schemes"]), table(maker, ["Device", ...of.schemes], body)];
}

function labelled(maker: Maker, labels: ReturnType<typeof drawing>["labels"]): Element[] {
  return labels.map(({ x, y, anchor, text }) =>
    maker.svg("text", { x, y, "text-anchor": anchor, fill: "#4d5a68" }, [text]),
  );
}

function scatter(maker: Maker, rows: readonly Row[], cost: Cost): Element {
  const { drawn, line, labels, axes } = drawing(rows, cost);
  if (drawn.length === 0) return maker.html("p", ["No run has told both."]);
  return maker.svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` }, [
    maker.svg("path", { d: axes, fill: "none", stroke: "#a9b4c0" }),
    ...labelled(maker, labels),
    maker.svg("polyline", { points: line, fill: "none", stroke: "#4d5a68", "stroke-dasharray": "4 3" }),
    ...drawn.map(({ row, x, y, best, text }) =>
      maker.svg("circle", { cx: x, cy: y, r: best ? 7 : 5, fill: colorOf(row) }, [maker.svg("title", {}, [text])]),
    ),
  ]);
}

function losses(maker: Maker, rows: readonly Row[], curves: ReadonlyMap<string, Curve>): Element {
  const known = rows.map((row) => {
    const steps = curves.get(row.id)?.steps ?? [];
    const each = Math.ceil(steps.length / MOST_POINTS);
    const points = steps.filter((_, index) => index % each === 0 || index === steps.length - 1);
    return { row, points: points.flatMap(({ step, loss }) => (loss === null ? [] : [{ step, loss }])) };
  });
  const all = known.flatMap(({ points }) => points);
  if (all.length === 0) return maker.html("p", ["No run has told a step."]);
  const [steps, values] = [all.map(({ step }) => step), all.map(({ loss }) => loss)];
  const across = scale(steps, 60, WIDTH - 12);
  const up = scale(values, HEIGHT - 40, 12);
  const [last, most, least] = [Math.max(...steps), Math.max(...values), Math.min(...values)];
  return maker.svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}` }, [
    maker.svg("path", { d: `M60,12V${HEIGHT - 40}H${WIDTH - 12}`, fill: "none", stroke: "#a9b4c0" }),
    ...labelled(maker, [
      { x: across(last), y: HEIGHT - 24, anchor: "end" as const, text: `step ${last}` },
      ...[most, least].map((value) => ({ x: 54, y: up(value) + 4, anchor: "end" as const, text: format.loss(value) })),
    ]),
    ...known.map(({ row, points }) =>
      maker.svg("polyline", {
        points: points.map(({ step, loss }) => `${across(step).toFixed(1)},${up(loss).toFixed(1)}`).join(" "),
        fill: "none",
        stroke: colorOf(row),
        "stroke-width": 1.5,
      }),
    ),
  ]);
}

/** Saves the report as a file. */
export function saveReport(reported: Reported): void {
  saveText("comparison.html", "text/html", reportText(reported));
}
