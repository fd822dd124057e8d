/** Whether a dataset has what a build reads, as the service asks before it starts a run. */

import type { Dataset, Port } from "./api/types";

/** Why not, in a few words; null where it fits. */
export function fitOf(dataset: Dataset, inputs: readonly Port[]): string | null {
  if (dataset.device_id) return "stays on a device";
  for (const port of inputs) {
    const tensor = dataset.tensors.find((one) => one.name === port.name);
    if (!tensor && port.optional === true) continue;
    if (!tensor) return `has no ${port.name}`;
    const [wanted, found] = [port.shape.slice(1).join("×"), tensor.shape.slice(1).join("×")];
    if (wanted !== found) return `${port.name} is ${found || "a number"}, not ${wanted || "a number"}`;
    if (port.dtype !== tensor.dtype) return `${port.name} is ${tensor.dtype}, not ${port.dtype}`;
  }
  return null;
}
