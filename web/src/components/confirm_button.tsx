/** A button that asks before it does what cannot be undone, and says what the server answers. */

import { useRef, useState } from "preact/hooks";
import { asProblem } from "../data";

interface ConfirmProps {
  /** What it does: "Delete", "Revoke". */
  readonly verb: string;
  /** What it says while it does so: "Deleting". */
  readonly doing: string;
  /** What it does it to, in words: "mobilenet, version 3". */
  readonly what: string;
  /** What comes of it, in a sentence. */
  readonly warning: string;
  readonly act: () => Promise<unknown>;
  /** In a table, where each row has one. */
  readonly quiet?: boolean | undefined;
  /** What the button says that leaves everything as it is. */
  readonly keep?: string;
  /** Why it cannot be done, in a sentence; null where it can. */
  readonly why: string | null;
  readonly onDone: () => void;
}

export function ConfirmButton({ verb, doing, what, warning, act, quiet, keep = "Keep", why, onDone }: ConfirmProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const ask = () => {
    setFailure(null);
    dialog.current?.showModal();
  };
  const confirm = () => {
    setBusy(true);
    act()
      .then(
        () => {
          dialog.current?.close();
          onDone();
        },
        (error: unknown) => setFailure(asProblem(error).detail),
      )
      .finally(() => setBusy(false));
  };
  return (
    <>
      <button
        type="button"
        class={quiet ? "button button-quiet" : "button button-danger"}
        aria-label={`${verb} ${what}`}
        disabled={why !== null}
        title={why ?? ""}
        onClick={ask}
      >
        {verb}
      </button>
      <dialog ref={dialog} class="ask" aria-label={`${verb} ${what}?`}>
        <h2>
          {verb} {what}?
        </h2>
        <p>{warning}</p>
        {failure !== null && (
          <p class="problem" role="alert">
            {failure}
          </p>
        )}
        <div class="actions">
          <button type="button" class="button button-danger" disabled={busy} onClick={confirm}>
            {busy ? `${doing} …` : verb}
          </button>
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            {keep}
          </button>
        </div>
      </dialog>
    </>
  );
}
