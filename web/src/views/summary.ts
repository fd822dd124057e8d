/** The compiler's summary as figures; the same for a build's row and an artifact's manifest. */

import type { Summary } from "../api/types";
import type { Figure } from "../components/figures";
import { curl } from "../commands";
import * as format from "../format";

/** `path` and `prefix` say where the command finds the summary: `curl path | jq prefix.arena_bytes`. */
export function summaryFigures(summary: Summary, path: string, prefix: string): Figure[] {
  const at = (name: string) => curl(path, `${prefix}.${name}`);
  const { arena_bytes: arena, lower_bound_bytes: bound } = summary;
  const dense = summary.nodes_backward_dense;
  const figures: Figure[] = [
    {
      label: "Arena",
      value: format.bytes(arena),
      hint: arena && bound ? `lower bound ${format.bytes(bound)}, ${format.deviation(arena, bound)}` : undefined,
      command: at("arena_bytes"),
    },
    { label: "Predicted peak", value: format.bytes(summary.predicted_peak_bytes), command: at("predicted_peak_bytes") },
    { label: "Parameters", value: format.bytes(summary.param_bytes), command: at("param_bytes") },
    { label: "Optimizer state", value: format.bytes(summary.state_bytes), command: at("state_bytes") },
    {
      label: "Trained parameters",
      value: format.count(summary.trained_parameters),
      command: at("trained_parameters"),
    },
    { label: "Forward nodes", value: format.count(summary.nodes_forward), command: at("nodes_forward") },
    {
      label: "Backward nodes",
      value: format.count(summary.nodes_backward),
      hint: typeof dense !== "number" ? undefined : `${format.count(dense)} before pruning`,
      command: at("nodes_backward"),
    },
    { label: "Kernels", value: format.count(summary.kernels), command: at("kernels") },
  ];
  const flops = Object.entries(summary.flops ?? {}).filter(
    (part): part is [string, number] => typeof part[1] === "number",
  );
  if (flops.length > 0)
    figures.push({
      label: "Operations per step",
      value: format.count(flops.reduce((sum, [, operations]) => sum + operations, 0)),
      hint: flops.map(([phase, operations]) => `${phase} ${format.count(operations)}`).join(", "),
      command: at("flops"),
    });
  return figures;
}
