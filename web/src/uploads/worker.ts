/** Reads files away from the page: digests of whole files, and what stands in their headers. */

import { sha256 } from "@noble/hashes/sha2.js";
import { bytesToHex } from "@noble/hashes/utils.js";
import { fileSource } from "./bytes";
import { externalFiles, NoModel } from "./onnx";
import { whyNoDataset } from "./safetensors";
import type { Answer, Task } from "./work";

const TELL_EVERY = 8 << 20;

async function digest(file: Blob): Promise<string> {
  const hash = sha256.create();
  const reader = file.stream().getReader();
  let done = 0;
  let told = 0;
  for (;;) {
    const chunk = await reader.read();
    if (chunk.done) break;
    hash.update(chunk.value);
    done += chunk.value.length;
    if (done - told >= TELL_EVERY) {
      told = done;
      tell({ kind: "progress", done });
    }
  }
  if (done !== file.size) throw new Error("The file ended early.");
  return bytesToHex(hash.digest());
}

function tell(answer: Answer): void {
  postMessage(answer);
}

async function answer({ kind, file }: Task): Promise<Answer> {
  switch (kind) {
    case "digest":
      return { kind: "digest", digest: await digest(file) };
    case "model":
      try {
        return { kind: "model", external: externalFiles(fileSource(file)), why: null };
      } catch (error) {
        if (error instanceof NoModel) return { kind: "model", external: [], why: error.message };
        throw error;
      }
    case "dataset":
      return { kind: "dataset", why: whyNoDataset(fileSource(file)) };
  }
}

addEventListener("message", ({ data }: MessageEvent<Task>) => {
  answer(data).then(tell, () => tell({ kind: "unreadable" }));
});
