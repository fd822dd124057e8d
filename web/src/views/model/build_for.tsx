/** Builds the chosen scheme for one or several targets, and keeps the recipe under a name. */

import { useState } from "preact/hooks";
import { post } from "../../api/client";
import type { Build, Estimate, Target } from "../../api/types";
import { CopyButton } from "../../components/copy";
import { memo } from "../../components/memo";
import { ProblemBox, Section } from "../../components/page";
import { curlPost } from "../../commands";
import { WaitsNote } from "../../components/waits";
import { asProblem } from "../../data";
import { Needs } from "../../permission";
import { usePosts } from "../../posts";
import { link } from "../../router";

interface BuildForProps {
  readonly modelId: string;
  readonly text: string;
  /** Of the present text; null while it cannot be built. */
  readonly takes: Estimate | null;
  readonly targets: readonly Target[];
  readonly first: string;
}

export const BuildFor = memo(function BuildFor({ modelId, text, takes, targets, first }: BuildForProps) {
  const [marked, setMarked] = useState<ReadonlySet<string> | null>(null);
  const [name, setName] = useState("");
  const { outcomes, busy, waits, go } = usePosts<string, Build>();
  const wanted = marked ?? new Set([first]);
  const order = (target: string) => ({ model_id: modelId, recipe: text, target, ...(name ? { name } : {}) });

  const submit = async (event: Event) => {
    event.preventDefault();
    const found = await go(wanted, (target) => post<Build>("/builds", order(target)));
    const [only] = found;
    if (found.length === 1 && only?.made) location.hash = link.build(only.made.id);
  };
  const toggle = (target: string) => {
    const next = new Set(wanted);
    if (!next.delete(target)) next.add(target);
    setMarked(next);
  };

  return (
    <Section title="Build it">
      <Needs scope="builds:write">
        <form onSubmit={(event) => void submit(event)}>
          <fieldset class="targets">
            <legend>For</legend>
            {targets.map((target) => {
              const fit = takes?.targets?.[target.name];
              return (
                <label key={target.name} class="check">
                  <input type="checkbox" checked={wanted.has(target.name)} onChange={() => toggle(target.name)} />
                  {target.name}
                  {fit && !fit.fits && <span class="faint"> (does not fit)</span>}
                </label>
              );
            })}
          </fieldset>
          <label class="field">
            <span>Name of the build (empty: the model's)</span>
            <input type="text" value={name} maxLength={200} onInput={(event) => setName(event.currentTarget.value)} />
          </label>
          <div class="actions">
            <button type="submit" class="button button-primary" disabled={busy || takes === null || wanted.size === 0}>
              {busy ? "Requesting …" : wanted.size > 1 ? `Build for ${wanted.size} targets` : "Build"}
            </button>
            <CopyButton text={curlPost("/builds", order([...wanted][0] ?? first))} of="requesting this build" />
          </div>
        </form>
      </Needs>
      <WaitsNote seconds={waits} />
      {outcomes.map(({ of: target, made: build, error }) =>
        build ? (
          <p key={target}>
            {target}: <a href={link.build(build.id)}>{build.name || build.model_name}</a>
          </p>
        ) : (
          <ProblemBox key={target} problem={asProblem(error)} />
        ),
      )}
    </Section>
  );
});
