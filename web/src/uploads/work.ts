/** Asks a worker about a file. Each question gets a worker of its own, which ends with its answer. */

export type Task = { readonly kind: "digest" | "model" | "dataset"; readonly file: Blob };
export type Answer =
  | { readonly kind: "progress"; readonly done: number }
  | { readonly kind: "digest"; readonly digest: string }
  | { readonly kind: "model"; readonly external: readonly string[]; readonly why: string | null }
  | { readonly kind: "dataset"; readonly why: string | null }
  | { readonly kind: "unreadable" };

/** The browser no longer gets at the file: it was changed, moved or deleted. */
export class Unreadable extends Error {
  constructor(name: string) {
    super(`${name} can no longer be read: it was changed, moved or deleted. Choose it again.`);
  }
}

function ask(task: Task, name: string, signal: AbortSignal, onProgress: (done: number) => void): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const worker = new Worker(new URL("./worker.ts", import.meta.url), { type: "module" });
    const end = (settle: () => void) => {
      worker.terminate();
      settle();
    };
    signal.addEventListener("abort", () => end(() => reject(signal.reason as Error)), { once: true });
    worker.addEventListener("error", () => end(() => reject(new Error("The worker of the page cannot be started."))));
    worker.addEventListener("message", ({ data }: MessageEvent<Answer>) => {
      if (data.kind === "progress") onProgress(data.done);
      else if (data.kind === "unreadable") end(() => reject(new Unreadable(name)));
      else end(() => resolve(data));
    });
    worker.postMessage(task);
  });
}

const ignore = () => undefined;

/** SHA-256 of the file, in hexadecimal digits. `crypto.subtle` would need https, and the whole file in memory. */
export async function digestOf(file: File, signal: AbortSignal, onProgress: (done: number) => void): Promise<string> {
  const found = await ask({ kind: "digest", file }, file.name, signal, onProgress);
  return found.kind === "digest" ? found.digest : "";
}

/** The external data files that a model names, or why it is no model. */
export async function readModel(file: File): Promise<{ external: readonly string[]; why: string | null }> {
  const found = await ask({ kind: "model", file }, file.name, new AbortController().signal, ignore);
  return found.kind === "model" ? found : { external: [], why: null };
}

/** Why a file is no dataset; null where it looks like one. */
export async function readDataset(file: File): Promise<string | null> {
  const found = await ask({ kind: "dataset", file }, file.name, new AbortController().signal, ignore);
  return found.kind === "dataset" ? found.why : null;
}
