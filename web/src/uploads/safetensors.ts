/** Looks whether a file can be a dataset before it is sent; the service checks the whole header. */

import type { Source } from "./bytes";

const MOST_HEADER = 1 << 20;

/** Why a file is no dataset, in a sentence; null where it looks like one. */
export function whyNoDataset(source: Source): string | null {
  if (source.size < 8) return "It is too short for a safetensors file.";
  const view = new DataView(Uint8Array.from(source.read(0, 8)).buffer);
  const length = Number(view.getBigUint64(0, true));
  if (length > MOST_HEADER || 8 + length > source.size) return "It is not a safetensors file, or its end is missing.";
  let header: unknown;
  try {
    header = JSON.parse(new TextDecoder().decode(source.read(8, 8 + length)));
  } catch {
    return "It is not a safetensors file: its header cannot be read.";
  }
  if (typeof header !== "object" || header === null || Array.isArray(header)) return "Its header describes no tensors.";
  return whyNoSamples(Object.entries(header).filter(([name]) => name !== "__metadata__"));
}

/** All tensors have the same first dimension: it counts samples. */
function whyNoSamples(tensors: readonly (readonly [string, unknown])[]): string | null {
  if (tensors.length === 0) return "It holds no tensors; give one for each input of the model, and labels.";
  let first: { readonly name: string; readonly samples: number } | null = null;
  for (const [name, described] of tensors) {
    const shape = (described as { readonly shape?: unknown } | null)?.shape;
    const samples: unknown = Array.isArray(shape) ? shape[0] : undefined;
    if (typeof samples !== "number") return `Tensor “${name}” has no dimension; the first must count samples.`;
    if (samples === 0) return "It holds zero samples.";
    first ??= { name, samples };
    if (samples !== first.samples) {
      return `Tensor “${name}” has ${samples} samples, but “${first.name}” has ${first.samples}; all need the same.`;
    }
  }
  return null;
}
