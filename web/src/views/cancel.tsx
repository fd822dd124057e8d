/** The button that cancels a build or a run, with what the server says about it. */

import { useState } from "preact/hooks";
import { post, type Problem } from "../api/client";
import { CopyButton } from "../components/copy";
import { ProblemBox } from "../components/page";
import { curlPost } from "../commands";
import { asProblem } from "../data";
import { Needs, type Scope } from "../permission";

interface CancelProps {
  readonly path: string;
  readonly what: "build" | "run";
  readonly onCancelled: () => void;
}

const SCOPES: Readonly<Record<CancelProps["what"], Scope>> = { build: "builds:write", run: "runs:write" };

export function Cancel({ path, what, onCancelled }: CancelProps) {
  const [problem, setProblem] = useState<Problem | null>(null);
  const cancel = () => {
    post<unknown>(`${path}/cancel`, {}).then(
      () => {
        setProblem(null);
        onCancelled();
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  return (
    <>
      <Needs scope={SCOPES[what]} inline>
        <button type="button" class="button" onClick={cancel}>
          Cancel {what}
        </button>
      </Needs>
      <CopyButton text={curlPost(`${path}/cancel`, {})} of={`cancelling this ${what}`} />
      {problem && <ProblemBox problem={problem} />}
    </>
  );
}
