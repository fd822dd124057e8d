/** What a person chose, sorted into what can be sent: models with their external data, datasets, and what is neither. */

export interface Chosen {
  /** Path as the person chose it: `model.onnx`, or `folder/model.onnx`. */
  readonly path: string;
  readonly file: File;
}

export type Kind = "model" | "dataset";

export interface External {
  /** As the model names it. */
  readonly name: string;
  readonly file: File;
}

export interface Planned {
  readonly kind: Kind;
  readonly name: string;
  readonly file: File;
  readonly external: readonly External[];
  /** External files that the model names and that were not chosen. */
  readonly missing: readonly string[];
  /** Why it cannot be sent, in a sentence. */
  readonly why: string | null;
}

export interface Plan {
  readonly planned: readonly Planned[];
  /** What belongs to none of them, with a sentence that says why. */
  readonly left: readonly { readonly path: string; readonly why: string }[];
}

/** What is asked about a file, of a worker. */
export interface Readers {
  model(file: File): Promise<{ readonly external: readonly string[]; readonly why: string | null }>;
  dataset(file: File): Promise<string | null>;
}

const MAKE_SAFETENSORS =
  "A dataset is a safetensors file: in Python, save_file({“input”: images, “labels”: labels}, “train.safetensors”) " +
  "of safetensors.numpy makes one.";
const CONVERTIBLE = /\.(csv|tsv|npy|npz|parquet|h5|hdf5|pt|pth|json|jsonl|zip|png|jpe?g)$/i;

export async function makePlan(chosen: readonly Chosen[], kind: Kind, readers: Readers): Promise<Plan> {
  const suffix = kind === "model" ? /\.onnx$/i : /\.safetensors$/i;
  const mains = chosen.filter(({ path }) => suffix.test(path));
  const byPath = new Map(chosen.map(({ path, file }) => [path, file]));
  const used = new Set(mains.map(({ path }) => path));
  const planned: Planned[] = [];
  for (const main of mains) {
    planned.push(kind === "model" ? await planModel(main, byPath, used, readers) : await planDataset(main, readers));
  }
  const left = chosen
    .filter(({ path }) => !used.has(path))
    .map(({ path }) => ({ path, why: whyLeft(path, kind, mains.length) }));
  return { planned, left };
}

async function planModel(main: Chosen, byPath: Map<string, File>, used: Set<string>, readers: Readers) {
  const { external, why } = main.file.size === 0 ? EMPTY : await readers.model(main.file);
  const folder = main.path.slice(0, main.path.lastIndexOf("/") + 1);
  const found: External[] = [];
  const missing: string[] = [];
  for (const name of external) {
    // Files chosen one by one have no folders: the last part of the name has to do then.
    const path = [folder + name, folder + name.slice(name.lastIndexOf("/") + 1)].find((one) => byPath.has(one));
    const file = path === undefined ? undefined : byPath.get(path);
    if (path === undefined || file === undefined || file.size === 0) missing.push(name);
    else {
      used.add(path);
      found.push({ name, file });
    }
  }
  return { kind: "model" as const, name: nameOf(main.path), file: main.file, external: found, missing, why };
}

const EMPTY = { external: [], why: "It is empty." };

async function planDataset(main: Chosen, readers: Readers): Promise<Planned> {
  const why = main.file.size === 0 ? EMPTY.why : await readers.dataset(main.file);
  return { kind: "dataset", name: nameOf(main.path), file: main.file, external: [], missing: [], why };
}

/** "folder/mobilenet.onnx" -> "mobilenet". */
export function nameOf(path: string): string {
  const file = path.slice(path.lastIndexOf("/") + 1);
  const name = file.replace(/\.(onnx|safetensors)$/i, "");
  return (name || file).slice(0, 200);
}

function whyLeft(path: string, kind: Kind, mains: number): string {
  if (kind === "dataset") {
    if (/\.onnx$/i.test(path)) return "is a model; upload it under Models.";
    return CONVERTIBLE.test(path) ? `is not sent. ${MAKE_SAFETENSORS}` : "is no safetensors file, and is not sent.";
  }
  if (/\.safetensors$/i.test(path) && mains === 0) return "is no model; upload datasets under Data.";
  if (mains === 0) return "is no ONNX file; a model is a file whose name ends in .onnx.";
  return mains === 1
    ? "is not named by the model, and is not sent."
    : "is named by none of the models, and is not sent.";
}
