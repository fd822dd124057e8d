/** What runs and builds are called: by what a person knows of them, in the same order everywhere. */

import type { Run } from "./api/types";

interface Versioned {
  readonly name: string;
  readonly version: number;
}

/** "pets" of the first version, "pets:v3" of a later one. */
export function versionText({ name, version }: Versioned): string {
  return version > 1 ? `${name}:v${version}` : name;
}

/** A file of this version as a browser saves it: "pets-v3.onnx". */
export function fileName({ name, version }: Versioned, suffix: string): string {
  return `${name.replace(/[^\w.-]+/g, "_")}-v${version}.${suffix}`;
}

/** "mobilenet · last4 · digits": the model, what is trained of it, the data. A build's version says for which target it
 * is rather than what is trained: it is left out. */
export function runText(run: Run): string {
  const { model, recipe, build, dataset, entry } = run;
  const scheme = recipe ? versionText(recipe) : build.name === model.name ? null : build.name;
  const what = entry === "train" ? null : entry;
  return [versionText(model), scheme, dataset && versionText(dataset), what].filter(Boolean).join(" · ");
}

/** A run that throttled, or ended otherwise than people think when they read its state. */
export function remarks(run: Run): string[] {
  const found: string[] = [];
  if (run.report?.health?.throttled === true) found.push("throttled");
  if (run.report?.train?.ended === "patience") found.push("stopped early");
  if (run.attempt > 1) found.push(`attempt ${run.attempt}`);
  if (run.retried_by) found.push("was tried again");
  return found;
}
