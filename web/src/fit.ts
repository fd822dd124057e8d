/** Whether a dataset has what a build reads, as the service asks before it starts a run. */

import type { Dataset, Port } from "./api/types";

/** Why not, in a few words; null where it fits. */
export function fitOf(dataset: Dataset, inputs: readonly Port[]): string | null {
  return dataset.device_id ? "stays on a device" : misfit(dataset.tensors, inputs);
}

/** What of the inputs is not among the tensors, in a few words; null where all is. */
export function misfit(tensors: Dataset["tensors"], inputs: readonly Port[]): string | null {
  for (const port of inputs) {
    const tensor = tensors.find((one) => one.name === port.name);
    if (!tensor && port.optional === true) continue;
    if (!tensor) return `has no ${port.name}`;
    const [wanted, found] = [port.shape.slice(1).join("×"), tensor.shape.slice(1).join("×")];
    if (wanted !== found) return `${port.name} is ${found || "a number"}, not ${wanted || "a number"}`;
    if (port.dtype !== tensor.dtype) return `${port.name} is ${tensor.dtype}, not ${port.dtype}`;
  }
  return null;
}

/** An input of a model by its type, such as `f32[8, 3, 32, 32]`. */
export function portOf(name: string, type: string): Port {
  const [dtype = "", dims = ""] = type.split(/[[\]]/);
  return { name, dtype, shape: dims === "" ? [] : dims.split(",").map(Number) };
}
