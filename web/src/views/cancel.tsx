/** The button that cancels a build or a run, with what the server says about it. */

import { useState } from "preact/hooks";
import { post, type Problem } from "../api/client";
import { CopyButton } from "../components/copy";
import { ProblemBox } from "../components/page";
import { curlPost } from "../commands";
import { asProblem } from "../data";

interface CancelProps {
  readonly path: string;
  readonly what: string;
  readonly onCancelled: () => void;
}

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
      <button type="button" class="button" onClick={cancel}>
        Cancel {what}
      </button>
      <CopyButton text={curlPost(`${path}/cancel`, {})} of={`cancelling this ${what}`} />
      {problem && <ProblemBox problem={problem} />}
    </>
  );
}
