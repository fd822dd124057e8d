/** The layers of a model as a table that can be searched and ordered, as the address says; long ones show a part until
 * all are asked for. */

import type { Layer } from "../../api/types";
import { ByAndBy } from "../../components/later";
import { memo } from "../../components/memo";
import { TableFrame } from "../../components/page";
import { Path } from "../../components/path";
import * as format from "../../format";
import { address, setQuery, useKept } from "../../router";

const FEW = 60;

const ORDERS = {
  order: { text: "model order", of: () => 0 },
  parameters: { text: "parameters", of: (layer: Layer) => layer.param_count },
  operations: { text: "operations", of: (layer: Layer) => layer.flops },
  saved: { text: "saved for backward", of: (layer: Layer) => layer.saved_bytes },
} as const;

function orderOf(said: string | null | undefined): keyof typeof ORDERS {
  return said && Object.hasOwn(ORDERS, said) ? (said as keyof typeof ORDERS) : "order";
}

export function Layers({ layers }: { readonly layers: readonly Layer[] }) {
  const query = address.value?.query;
  const sought = query?.get("layers") ?? "";
  const order = orderOf(query?.get("order"));
  const [all, setAll] = useKept("layers all", false);
  const found = layers.filter(({ name, operators }) => `${name} ${operators.join(" ")}`.includes(sought.trim()));
  const ordered = order === "order" ? found : [...found].sort((a, b) => ORDERS[order].of(b) - ORDERS[order].of(a));
  const shown = all ? ordered : ordered.slice(0, FEW);
  return (
    <>
      <div class="form-row">
        <label class="field">
          <span>Search</span>
          <input
            type="search"
            value={sought}
            placeholder="name or operator"
            onInput={(event) => setQuery({ layers: event.currentTarget.value })}
          />
        </label>
        <label class="field">
          <span>Order by</span>
          <select value={order} onChange={(event) => setQuery({ order: event.currentTarget.value })}>
            {Object.entries(ORDERS).map(([name, { text }]) => (
              <option key={name} value={name}>
                {text}
              </option>
            ))}
          </select>
        </label>
      </div>
      <TableFrame label="Layers">
        <table>
          <thead>
            <tr>
              <th scope="col">Layer</th>
              <th scope="col">Operators</th>
              <th scope="col">Result</th>
              <th scope="col" class="number">
                Parameters
              </th>
              <th scope="col">Operations</th>
              <th scope="col">Saved for backward, all trained</th>
            </tr>
          </thead>
          <tbody>
            <ByAndBy of={shown}>{(layer) => <LayerRow key={layer.name} layer={layer} />}</ByAndBy>
          </tbody>
        </table>
      </TableFrame>
      {found.length === 0 && <p class="note">No layer has this in its name or operators.</p>}
      {ordered.length > FEW && (
        <button type="button" class="button" onClick={() => setAll(!all)}>
          {all ? "Show fewer" : `Show all ${ordered.length}`}
        </button>
      )}
    </>
  );
}

const LayerRow = memo(({ layer }: { readonly layer: Layer }) => (
  <tr>
    <td class="mono wrap">
      <Path of={layer.name} />
    </td>
    <td class="faint">{layer.operators.join(", ")}</td>
    <td class="nowrap">{format.shape(layer.shape)}</td>
    <td class="number">{layer.param_count > 0 ? format.count(layer.param_count) : ""}</td>
    <td>
      <ShareBar share={layer.share} text={format.count(layer.flops)} />
    </td>
    <td>{layer.saved_bytes > 0 && <ShareBar share={layer.saved_share} text={format.bytes(layer.saved_bytes)} />}</td>
  </tr>
));

export function ShareBar({ share, text }: { readonly share: number; readonly text: string }) {
  return (
    <span class="share" title={format.percent(share)}>
      <svg width="70" height="8" aria-hidden="true">
        <rect class="share-bar" width={Math.max(1, Math.min(1, share * 4) * 70)} height="8" rx="2" />
      </svg>
      {text}
    </span>
  );
}
