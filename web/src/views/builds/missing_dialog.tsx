/** Builds what is missing: which of it, asked first; then how each request went, as long as somebody may want to know. */

import { useState } from "preact/hooks";
import { Progress } from "../../components/badge";
import { Dialog } from "../../components/dialog";
import { WaitsNote } from "../../components/waits";
import { link } from "../../router";
import { type Asking, askFor, askingOf, askingText, forgetAsking, isDone, stopAsking } from "./asking";
import type { Missing } from "./rows";

const TITLE = "Build what is missing";

interface MissingDialogProps {
  readonly model: string;
  readonly missing: readonly Missing[];
  readonly onClose: () => void;
  readonly onAsked: () => void;
}

/** Which of it is to be built; then `TellingDialog`. */
export function MissingDialog({ model, missing, onClose, onAsked }: MissingDialogProps) {
  const [left, setLeft] = useState<ReadonlySet<Missing>>(new Set());
  const [begun, setBegun] = useState(false);
  const wanted = missing.filter((one) => !left.has(one));
  const toggle = (one: Missing) => {
    const next = new Set(left);
    if (!next.delete(one)) next.add(one);
    setLeft(next);
  };
  if (begun) return <TellingDialog model={model} onClose={onClose} />;
  return (
    <Dialog title={TITLE} wide onClose={onClose}>
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
      <div class="actions">
        <button
          type="button"
          class="button button-primary"
          disabled={wanted.length === 0}
          onClick={() => {
            setBegun(true);
            void askFor(model, wanted, onAsked);
          }}
        >
          Build {wanted.length}
        </button>
        <button type="button" class="button" onClick={onClose}>
          Cancel
        </button>
      </div>
    </Dialog>
  );
}

interface TellingProps {
  readonly model: string;
  readonly onClose: () => void;
}

/** How it goes. It may be closed at any time, and is forgotten once it is closed with nothing left to know. */
export function TellingDialog({ model, onClose }: TellingProps) {
  const asking = askingOf(model);
  if (!asking) return null;
  const close = () => {
    if (isDone(asking)) forgetAsking(model);
    onClose();
  };
  return (
    <Dialog title={TITLE} wide onClose={close}>
      <Outcomes of={asking} />
      <div class="actions">
        {asking.busy && (
          <button type="button" class="button" onClick={() => stopAsking(model)}>
            Stop
          </button>
        )}
        <button type="button" class="button" onClick={close}>
          Close
        </button>
      </div>
    </Dialog>
  );
}

function Outcomes({ of: asking }: { readonly of: Asking }) {
  const { busy, wanted, outcomes, waits } = asking;
  return (
    <>
      {busy && (
        <>
          <Progress
            label="Builds that were asked for"
            fraction={outcomes.length / wanted.length}
            text={`${outcomes.length} of ${wanted.length}`}
          />
          <p class="note">It goes on when this is closed; the matrix says how far it is.</p>
        </>
      )}
      <p role="status">{askingText(asking)}</p>
      <WaitsNote seconds={waits} />
      <ul class="missing-outcomes">
        {outcomes.map(({ of, build, refused }) => (
          <li key={`${of.scheme} ${of.target}`}>
            {of.scheme} for {of.target}:{" "}
            {build ? <a href={link.build(build.id)}>asked for</a> : <span class="field-error">{refused}</span>}
          </li>
        ))}
      </ul>
    </>
  );
}

interface AskedLineProps {
  readonly model: string;
  readonly onShow: () => void;
}

/** One line above the matrix while it goes on, and after that until somebody has seen it. */
export function AskedLine({ model, onShow }: AskedLineProps) {
  const asking = askingOf(model);
  if (!asking) return null;
  return (
    <p class="missing-line" role="status">
      Missing builds: {askingText(asking)}{" "}
      <button type="button" class="button" onClick={onShow}>
        Show
      </button>
      {!asking.busy && (
        <button type="button" class="button" onClick={() => forgetAsking(model)}>
          Dismiss
        </button>
      )}
    </p>
  );
}
