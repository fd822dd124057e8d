/** What a run learned: the weights to download, and how to load them. */

import type { Run } from "../../api/types";
import { Command } from "../../components/copy";
import { Download } from "../../components/download";
import { Section } from "../../components/page";
import { curlBlob } from "../../commands";
import * as format from "../../format";

export function Weights({ run }: { readonly run: Run }) {
  if (!run.weights_digest) {
    if (run.save_weights || run.state !== "succeeded" || run.entry !== "train") return null;
    return (
      <Section title="Trained weights">
        <p class="note">This run was asked for without its weights, so the device kept none for you.</p>
      </Section>
    );
  }
  const file = run.weights_form === "safetensors" ? "trained.safetensors" : "trained.bin";
  return (
    <Section
      title="Trained weights"
      note={`${format.bytes(run.weights_bytes)}: the parameters under their own names, as a ${run.weights_form ?? "safetensors"} file.`}
    >
      <Download digest={run.weights_digest} file={file}>
        Download the trained weights
      </Download>
      <Command text={curlBlob(run.weights_digest, file)} of="downloading the trained weights" />
      {run.weights_form === "safetensors" && (
        <Command
          text={`from safetensors.torch import load_file\nmodel.load_state_dict(load_file("${file}"), strict=False)`}
          of="loading the weights into PyTorch"
        />
      )}
    </Section>
  );
}
