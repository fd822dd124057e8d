/** The table of the picker: a row for each layer, marks for several at once, presets, and proposals of searches. */

import { useMemo, useRef, useState } from "preact/hooks";
import type { Layer } from "../../api/types";
import { ByAndBy } from "../../components/later";
import { memo } from "../../components/memo";
import { TableFrame } from "../../components/page";
import { Path } from "../../components/path";
import * as format from "../../format";
import { address, setQuery } from "../../router";
import {
  type Option,
  optionOf,
  optionsOf,
  optionText,
  PRESETS,
  type Row,
  type Scheme,
  withOption,
} from "../../scheme/scheme";
import { matches } from "../../scheme/scheme";
import { broughtBy, type Brought } from "../../scheme/contributions";
import { ShareBar } from "./layers";
import { Proposals, useGains } from "./proposals";

interface PicksProps {
  readonly layers: readonly Layer[];
  readonly rows: readonly Row[];
  readonly scheme: Scheme;
  readonly onScheme: (scheme: Scheme) => void;
  readonly onText: (text: string) => void;
  readonly modelId: string;
}

const EVERY: readonly Option[] = [
  "frozen",
  "bias",
  "share-0.125",
  "share-0.25",
  "share-0.5",
  "all",
  "rank-2",
  "rank-4",
  "rank-8",
  "rank-16",
];

export function Picks({ layers, rows, scheme, onScheme, onText, modelId }: PicksProps) {
  const sought = address.value?.query.get("layers") ?? "";
  const [marked, setMarked] = useState<ReadonlySet<string>>(new Set());
  const [last, setLast] = useState<number | null>(null);
  const shown = rows.flatMap((row, index) => {
    const layer = layers[index];
    return layer && row.parameters.length > 0 && fits(row.name, sought) ? [{ row, layer }] : [];
  });
  const gains = useGains(modelId);
  const brought = useMemo(() => broughtBy(rows, gains), [rows, gains]);
  const many = shown.filter(({ row }) => marked.has(row.name)).map(({ row }) => row);

  const mark = (at: number, event: MouseEvent) => {
    const wanted = !marked.has(shown[at]?.row.name ?? "");
    const [from, to] = event.shiftKey && last !== null ? [Math.min(at, last), Math.max(at, last)] : [at, at];
    const next = new Set(marked);
    for (const { row } of shown.slice(from, to + 1)) {
      if (wanted) next.add(row.name);
      else next.delete(row.name);
    }
    setMarked(next);
    setLast(at);
  };
  const choose = (chosen: readonly Row[], option: string) => onScheme(withOption(scheme, chosen, option as Option));
  const deeds = useRef<Deeds>({ mark, choose });
  deeds.current = { mark, choose };

  return (
    <>
      <div class="form-row">
        <label class="field">
          <span>Begin with</span>
          <select
            value=""
            onChange={(event) => {
              const preset = PRESETS.find(({ name }) => name === event.currentTarget.value);
              if (preset) onScheme(preset.choose(rows));
              event.currentTarget.value = "";
            }}
          >
            <option value="">a preset …</option>
            {PRESETS.map(({ name }) => (
              <option key={name}>{name}</option>
            ))}
          </select>
        </label>
        <Proposals modelId={modelId} onText={onText} />
        <label class="field">
          <span>Show layers (a part of the name, or a pattern with *)</span>
          <input type="search" value={sought} onInput={(event) => setQuery({ layers: event.currentTarget.value })} />
        </label>
        <label class="field">
          <span>{many.length > 0 ? `Set the ${many.length} marked` : `Set all ${shown.length} shown`}</span>
          <select
            value=""
            onChange={(event) => {
              if (event.currentTarget.value === "") return;
              choose(many.length > 0 ? many : shown.map(({ row }) => row), event.currentTarget.value);
              event.currentTarget.value = "";
            }}
          >
            <option value="">to …</option>
            {EVERY.map((option) => (
              <option key={option} value={option}>
                {optionText(option)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <TableFrame label="What is trained of each layer">
        <table class="picks">
          <thead>
            <tr>
              <th scope="col">
                <span class="visually-hidden">Marked</span>
              </th>
              <th scope="col">Layer</th>
              <th scope="col">Trained</th>
              {brought.size > 0 && (
                <th scope="col" title="As the latest search found it, if contributions add up.">
                  Brings
                </th>
              )}
              <th scope="col" class="number">
                Parameters
              </th>
              <th scope="col" class={brought.size > 0 ? "wide-only" : ""}>
                Operations
              </th>
              <th scope="col" class="wide-only">
                Result
              </th>
            </tr>
          </thead>
          <tbody>
            <ByAndBy of={shown}>
              {({ row, layer }, index) => (
                <Pick
                  key={row.name}
                  row={row}
                  layer={layer}
                  option={optionOf(row, scheme)}
                  brought={brought.size > 0 ? (brought.get(row.name) ?? null) : undefined}
                  marked={marked.has(row.name)}
                  index={index}
                  deeds={deeds}
                />
              )}
            </ByAndBy>
          </tbody>
        </table>
      </TableFrame>
    </>
  );
}

const fits = (name: string, sought: string) =>
  sought.includes("*") ? matches(sought.trim(), name) : name.includes(sought.trim());

interface Deeds {
  readonly mark: (at: number, event: MouseEvent) => void;
  readonly choose: (chosen: readonly Row[], option: string) => void;
}

interface PickProps {
  readonly row: Row;
  readonly layer: Layer;
  readonly option: Option;
  /** Null where a search did not weigh it; undefined where there is none. */
  readonly brought: Brought | null | undefined;
  readonly marked: boolean;
  readonly index: number;
  readonly deeds: { readonly current: Deeds };
}

const Pick = memo(({ row, layer, option, brought, marked, index, deeds }: PickProps) => (
  <tr class={`pick pick-${option.split("-")[0] ?? option}`}>
    <td>
      <input
        type="checkbox"
        checked={marked}
        onClick={(event) => deeds.current.mark(index, event)}
        aria-label={`Mark ${row.name}`}
      />
    </td>
    <td class="mono wrap" title={layer.operators.join(", ")}>
      <Path of={row.name} />
    </td>
    <td>
      <select
        value={option}
        aria-label={`Trained of ${row.name}`}
        onChange={(event) => deeds.current.choose([row], event.currentTarget.value)}
      >
        {option === "mixed" && <option value="mixed">{optionText("mixed")}</option>}
        {optionsOf(row).map((one) => (
          <option key={one} value={one}>
            {optionText(one)}
          </option>
        ))}
      </select>
    </td>
    {brought !== undefined && <td class="nowrap">{brought && <Heat of={brought} />}</td>}
    <td class="number">{format.count(layer.param_count)}</td>
    <td class={brought === undefined ? "" : "wide-only"}>
      <ShareBar share={layer.share} text={format.count(layer.flops)} />
    </td>
    <td class="nowrap wide-only">{format.shape(layer.shape)}</td>
  </tr>
));

function Heat({ of: { share, shade } }: { readonly of: Brought }) {
  return (
    <>
      <span class={`swatch heat-${shade}`} aria-hidden="true" /> {format.percent(share)}
    </>
  );
}
