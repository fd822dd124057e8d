/** The grid: a row for each device, a column for each build, in each field a mark for each seed. */

import { useMemo, useRef } from "preact/hooks";
import type { Campaign, CampaignCell, CampaignResult } from "../../api/types";
import { ByAndBy } from "../../components/later";
import { Empty, Section, TableFrame } from "../../components/page";
import { curl } from "../../commands";
import * as format from "../../format";
import { address, link, setQuery, useKept } from "../../router";
import { useArrows } from "./arrows";
import type { Cells } from "./cells";
import {
  chosenRows,
  FIGURE_NAMES,
  type FigureName,
  figureOf,
  FIGURES,
  MARKS_OF_FIELD,
  type Row,
  rowsAtOnce,
  rowsOf,
  SHOWN,
  type Shown,
  spreadText,
} from "./grid";
import { Legend, MarkShape } from "./marks";
import { CELL_WORDS, othersText, shortVersion } from "./parts";

interface GridProps {
  readonly campaign: Campaign;
  readonly path: string;
  readonly cells: Cells;
  /** A row a build and device. */
  readonly results: readonly CampaignResult[];
}

interface Column {
  readonly id: string;
  readonly build: string;
  readonly recipe: string | null;
  readonly target: string;
}

/** So many devices are overlooked at a glance; of more, one searches. */
const FEW = 8;

export function GridSection({ campaign, path, cells, results }: GridProps) {
  const before = useRef<readonly Row[]>([]);
  const rows = useMemo(() => (before.current = rowsOf(cells.cells, before.current)), [cells.cells]);
  const query = address.value?.query;
  const asked = query?.get("show") ?? "";
  const shown: Shown = Object.keys(SHOWN).includes(asked) ? (asked as Shown) : "";
  const text = query?.get("device") ?? "";
  const figure = figureOf(results, query?.get("figure") ?? null);
  const columns = useColumns(campaign, results);
  const step = rowsAtOnce(columns.length, campaign.order.seeds?.length ?? 1);
  const [pages, setPages] = useKept("pages of the grid", 1);
  const chosen = chosenRows(rows, text, shown);
  const arrows = useArrows();
  const drawn = chosen.slice(0, pages * step);
  const figures = useMemo(() => new Map(results.map((one) => [`${one.build_id} ${one.device_id}`, one])), [results]);
  return (
    <Section
      title="Grid"
      note="A row is a device, a column a build, a mark the run of one seed; arrow keys move among them. The number is the median over the seeds; ± says how far the 10th or 90th percentile is from it, of accuracies in points."
      command={curl(`${path}/cells`)}
    >
      <div class="grid-tools">
        <label class="field field-short">
          <span>Figure</span>
          <select value={figure} onChange={(event) => setQuery({ figure: event.currentTarget.value })}>
            {FIGURE_NAMES.map((name) => (
              <option key={name} value={name}>
                {FIGURES[name].name}
              </option>
            ))}
          </select>
        </label>
        <label class="field field-short">
          <span>Devices</span>
          <select value={shown} onChange={(event) => setQuery({ show: event.currentTarget.value || null })}>
            {Object.entries(SHOWN).map(([value, name]) => (
              <option key={value} value={value}>
                {name}
              </option>
            ))}
          </select>
        </label>
        {(rows.length > FEW || text !== "") && (
          <label class="field">
            <span>Search devices</span>
            <input
              type="search"
              value={text}
              maxLength={200}
              placeholder="a part of the name"
              onInput={(event) => setQuery({ device: event.currentTarget.value || null })}
            />
          </label>
        )}
      </div>
      <Legend />
      {cells.complete && drawn.length === 0 && <Empty title="No device is like that." />}
      {drawn.length > 0 && (
        <div ref={arrows.ref} onFocusIn={arrows.onFocusIn} onKeyDown={arrows.onKeyDown}>
          <TableFrame label="Grid of devices and builds">
            <table class="grid">
              <thead>
                <tr>
                  <th scope="col">Device</th>
                  {columns.map((column) => (
                    <ColumnHead key={column.id} of={column} />
                  ))}
                </tr>
              </thead>
              <tbody>
                <ByAndBy of={drawn}>
                  {(row) => (
                    <DeviceRow key={row.deviceId} row={row} columns={columns} figures={figures} figure={figure} />
                  )}
                </ByAndBy>
              </tbody>
            </table>
          </TableFrame>
        </div>
      )}
      {!cells.complete && (
        <p class="loading" role="status">
          Loading cells: {format.count(cells.cells.length)} of {format.count(campaign.cells.total)} …
        </p>
      )}
      {chosen.length > 0 && (
        <p class="grid-count faint">
          {format.count(drawn.length)} of {format.count(chosen.length)} {chosen.length === 1 ? "device" : "devices"}
          {chosen.length < rows.length && `, ${format.count(rows.length)} in all`}
        </p>
      )}
      {drawn.length < chosen.length && (
        <button type="button" class="button" onClick={() => setPages(pages + 1)}>
          Show more devices
        </button>
      )}
    </Section>
  );
}

/** The same object until a name changes, so that rows are not drawn again. */
function useColumns(campaign: Campaign, results: readonly CampaignResult[]): readonly Column[] {
  const known = new Map(results.map((one) => [one.build_id, one]));
  const found = campaign.build_ids.flatMap((id) => {
    const one = known.get(id);
    return one ? [{ id, build: one.build, recipe: one.recipe, target: one.target }] : [];
  });
  const text = JSON.stringify(found);
  return useMemo(() => JSON.parse(text) as readonly Column[], [text]);
}

function ColumnHead({ of: { id, build, recipe, target } }: { readonly of: Column }) {
  return (
    <th scope="col" class="grid-build">
      <a href={link.build(id)}>{shortVersion(recipe ?? build)}</a>
      <span class="under">{recipe === null ? target : `${build}, ${target}`}</span>
    </th>
  );
}

interface RowProps {
  readonly row: Row;
  readonly columns: readonly Column[];
  readonly figures: ReadonlyMap<string, CampaignResult>;
  readonly figure: FigureName;
}

/** Drawn again only when a cell or a number of it changed. */
function DeviceRow({ row, columns, figures, figure }: RowProps) {
  const texts = columns.map(({ id }) => spreadText(figure, figures.get(`${id} ${row.deviceId}`)?.[figure]));
  return useMemo(
    () => (
      <tr>
        <th scope="row">
          <a href={link.device(row.deviceId)}>{row.name}</a>
          <span class="under">{row.canary ? `${row.target}, canary` : row.target}</span>
        </th>
        {columns.map((column, place) => (
          <Field key={column.id} cells={row.cells.get(column.id)} text={texts[place] ?? ""} />
        ))}
      </tr>
    ),
    [row, columns, texts.join("\n")],
  );
}

function Field({ cells, text }: { readonly cells: readonly CampaignCell[] | undefined; readonly text: string }) {
  if (!cells) return <td class="faint">not for this target</td>;
  return (
    <td>
      <span class="grid-figure">{text}</span>
      <span class="marks-of-seeds">
        {cells.slice(0, MARKS_OF_FIELD).map((cell) => (
          <Mark key={cell.number} cell={cell} />
        ))}
      </span>
      {cells.length > MARKS_OF_FIELD && <span class="under">and {othersText(cells.slice(MARKS_OF_FIELD))}</span>}
    </td>
  );
}

function Mark({ cell }: { readonly cell: CampaignCell }) {
  const why = cell.failure && cell.state !== "succeeded" ? `: ${cell.failure.detail}` : "";
  const text = `Seed ${cell.seed}: ${CELL_WORDS[cell.state]}`;
  if (cell.run_id === null)
    return (
      <span class={`cell-mark cell-${cell.state}`} role="img" aria-label={text} title={text + why}>
        <MarkShape state={cell.state} />
      </span>
    );
  return (
    <a
      class={`cell-mark cell-${cell.state}`}
      href={link.run(cell.run_id)}
      tabIndex={-1}
      aria-label={text}
      title={text + why}
    >
      <MarkShape state={cell.state} />
    </a>
  );
}
