/** Builds what is missing: which of it, asked first; then how each request went. */

import { useRef, useState } from "preact/hooks";
import { post } from "../../api/client";
import type { Build } from "../../api/types";
import { Progress } from "../../components/badge";
import { Dialog } from "../../components/dialog";
import { asProblem } from "../../data";
import { link } from "../../router";
import { type Missing, orderLike } from "./rows";

interface Outcome {
  readonly of: Missing;
  readonly build?: Build;
  readonly refused?: string;
}

interface MissingDialogProps {
  readonly missing: readonly Missing[];
  readonly onClose: () => void;
  /** After each build that was asked for. */
  readonly onAsked: () => void;
}

export function MissingDialog({ missing, onClose, onAsked }: MissingDialogProps) {
  const [left, setLeft] = useState<ReadonlySet<Missing>>(new Set());
  const [outcomes, setOutcomes] = useState<readonly Outcome[]>([]);
  const [busy, setBusy] = useState(false);
  const stopped = useRef(false);
  const wanted = missing.filter((one) => !left.has(one));
  const toggle = (one: Missing) => {
    const next = new Set(left);
    if (!next.delete(one)) next.add(one);
    setLeft(next);
  };
  const ask = async () => {
    setBusy(true);
    const found: Outcome[] = [];
    for (const one of wanted) {
      if (stopped.current) break;
      try {
        found.push({ of: one, build: await post<Build>("/builds", orderLike(one.like, one.target)) });
        onAsked();
      } catch (error) {
        found.push({ of: one, refused: asProblem(error).detail });
      }
      setOutcomes([...found]);
    }
    setBusy(false);
  };
  const begun = busy || outcomes.length > 0;
  const refused = outcomes.filter((one) => one.refused !== undefined).length;
  return (
    <Dialog title="Build what is missing" wide onClose={() => !busy && onClose()}>
      {begun ? (
        <>
          {busy && (
            <Progress
              label="Builds that were asked for"
              fraction={outcomes.length / wanted.length}
              text={`${outcomes.length} of ${wanted.length} asked for`}
            />
          )}
          <p role="status">
            {outcomes.length - refused} asked for{refused > 0 && `, ${refused} refused`}
            {!busy && outcomes.length < wanted.length && `, ${wanted.length - outcomes.length} left out`}.
          </p>
          <ul class="missing-outcomes">
            {outcomes.map(({ of, build, refused }) => (
              <li key={`${of.scheme} ${of.target}`}>
                {of.scheme} for {of.target}:{" "}
                {build ? <a href={link.build(build.id)}>asked for</a> : <span class="field-error">{refused}</span>}
              </li>
            ))}
          </ul>
        </>
      ) : (
        <>
          <p>Each with the newest recipe of its scheme, and its other choices.</p>
          <div class="missing-ticks">
            {missing.map((one) => (
              <label key={`${one.scheme} ${one.target}`} class="check">
                <input type="checkbox" checked={!left.has(one)} onChange={() => toggle(one)} />
                <span>
                  {one.scheme} for {one.target}
                </span>
              </label>
            ))}
          </div>
        </>
      )}
      <div class="actions">
        {!begun && (
          <button type="button" class="button button-primary" disabled={wanted.length === 0} onClick={() => void ask()}>
            Build {wanted.length}
          </button>
        )}
        {busy ? (
          <button type="button" class="button" onClick={() => (stopped.current = true)}>
            Stop
          </button>
        ) : (
          <button type="button" class="button" onClick={onClose}>
            {begun ? "Close" : "Cancel"}
          </button>
        )}
      </div>
    </Dialog>
  );
}
