/** Figures of each run with the differences to the base, and the same by device and scheme. */

import { RunState } from "../../components/badge";
import { TableFrame } from "../../components/page";
import * as format from "../../format";
import { link, setQuery } from "../../router";
import { COLUMNS, difference, grid, type Row } from "./rows";

interface RowsProps {
  readonly rows: readonly Row[];
  readonly base: Row | undefined;
  readonly selected: string | null;
  readonly onSelect: (id: string) => void;
  readonly onRemove: (id: string) => void;
}

export function Swatch({ color }: { readonly color: string }) {
  return (
    <svg class="swatch" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">
      <circle cx="5" cy="5" r="5" class={color} />
    </svg>
  );
}

export function ComparedTable({ rows, base, selected, onSelect, onRemove }: RowsProps) {
  return (
    <TableFrame label="Compared runs">
      <table class="compared">
        <thead>
          <tr>
            <th scope="col">Run</th>
            <th scope="col">Device</th>
            {COLUMNS.map(({ key, name }) => (
              <th scope="col" class="number" key={key}>
                {name}
              </th>
            ))}
            <th scope="col" class="on-screen">
              Base
            </th>
            <th scope="col" class="on-screen">
              <span class="visually-hidden">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id} class={row.id === selected ? "selected" : undefined}>
              <td class="compared-run">
                <button
                  type="button"
                  class="mark"
                  aria-pressed={row.id === selected}
                  aria-label={`Highlight ${row.name} on ${row.device}`}
                  title="Highlight"
                  onClick={() => onSelect(row.id)}
                >
                  <Swatch color={row.color} />
                </button>{" "}
                <a href={link.run(row.id)}>{row.name}</a> <span class="faint mono">{format.shortId(row.id)}</span>
                {row.run.state !== "succeeded" && <RunState run={row.run} />}
              </td>
              <td>{row.device}</td>
              {COLUMNS.map((column) => (
                <td class="number" key={column.key}>
                  {column.text(row[column.key])}
                  <span class="difference">{difference(column, row, base)}</span>
                </td>
              ))}
              <td class="on-screen">
                <input
                  type="radio"
                  name="base"
                  aria-label={`Compare with ${row.name} on ${row.device}`}
                  checked={row.id === base?.id}
                  onChange={() => setQuery({ base: row.id })}
                />
              </td>
              <td class="on-screen">
                <button
                  type="button"
                  class="mark"
                  aria-label={`Remove ${row.name} on ${row.device}`}
                  title="Remove"
                  onClick={() => onRemove(row.id)}
                >
                  ×
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

export function Matrix({ of }: { readonly of: NonNullable<ReturnType<typeof grid>> }) {
  return (
    <TableFrame label="Devices by schemes">
      <table>
        <thead>
          <tr>
            <th scope="col">Device</th>
            {of.schemes.map((scheme) => (
              <th scope="col" key={scheme}>
                {scheme}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {of.devices.map((device) => (
            <tr key={device}>
              <th scope="row">{device}</th>
              {of.schemes.map((scheme) => (
                <Cell key={scheme} rows={of.cell(device, scheme)} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function Cell({ rows: [newest, ...older] }: { readonly rows: readonly Row[] }) {
  if (!newest) return <td class="faint">no run</td>;
  return (
    <td>
      <a href={link.run(newest.id)}>{format.percent(newest.accuracy)}</a>
      <span class="difference">
        {format.bytes(newest.peak)}, {format.milliseconds(newest.step)}
        {older.length > 0 && `, newest of ${older.length + 1}`}
      </span>
    </td>
  );
}
