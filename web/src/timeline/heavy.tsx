/** The nodes that cost most, as bars: by operations or by bytes moved. */

import { useState } from "preact/hooks";
import type { PlanNode } from "../api/types";
import { TableFrame } from "../components/page";
import * as format from "../format";
import { heaviest } from "./layout";

const MOST = 15;

export function HeaviestNodes({ nodes }: { readonly nodes: readonly PlanNode[] }) {
  const [cost, setCost] = useState<"flops" | "bytes">("flops");
  const ranked = heaviest(nodes, cost, MOST);
  const largest = ranked[0]?.share ?? 1;
  return (
    <>
      <fieldset class="choice">
        <legend>Order by</legend>
        {(["flops", "bytes"] as const).map((name) => (
          <label key={name}>
            <input type="radio" name="cost" checked={cost === name} onChange={() => setCost(name)} />
            {name === "flops" ? "operations" : "bytes moved"}
          </label>
        ))}
      </fieldset>
      <TableFrame label="Heaviest nodes">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Operator</th>
              <th scope="col">Phase</th>
              <th scope="col" class="number">
                {cost === "flops" ? "Operations" : "Bytes"}
              </th>
              <th scope="col">Share of the program</th>
            </tr>
          </thead>
          <tbody>
            {ranked.map(({ node, share }) => (
              <tr key={node.index}>
                <td class="mono" title={node.kernel}>
                  {node.name}
                </td>
                <td>{node.op}</td>
                <td>{node.phase}</td>
                <td class="number">{cost === "flops" ? format.count(node.flops) : format.bytes(node.bytes)}</td>
                <td>
                  <span class="share">
                    <svg width="120" height="10" aria-hidden="true">
                      <rect
                        class={`phase-${node.phase}`}
                        width={Math.max(1, (share / largest) * 120)}
                        height="10"
                        rx="2"
                      />
                    </svg>
                    {format.percent(share)}
                  </span>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </TableFrame>
    </>
  );
}
