/** A button that deletes after it was asked once more what it deletes. */

import { useRef, useState } from "preact/hooks";
import { send } from "../api/client";
import { asProblem } from "../data";

interface DeleteProps {
  /** What is deleted, in words: "mobilenet, version 3". */
  readonly what: string;
  /** What is lost with it, in a sentence. */
  readonly warning: string;
  readonly path: string;
  /** In a table, where each row has one. */
  readonly quiet?: boolean;
  /** Why it cannot be deleted, in a sentence; null where it can. */
  readonly why: string | null;
  readonly onDeleted: () => void;
}

export function DeleteButton({ what, warning, path, quiet, why, onDeleted }: DeleteProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [failure, setFailure] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const ask = () => {
    setFailure(null);
    dialog.current?.showModal();
  };
  const remove = () => {
    setBusy(true);
    send(path, { method: "DELETE" })
      .then(
        () => {
          dialog.current?.close();
          onDeleted();
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
        aria-label={`Delete ${what}`}
        disabled={why !== null}
        title={why ?? ""}
        onClick={ask}
      >
        Delete
      </button>
      <dialog ref={dialog} class="ask" aria-label={`Delete ${what}?`}>
        <h2>Delete {what}?</h2>
        <p>{warning}</p>
        {failure !== null && (
          <p class="problem" role="alert">
            {failure}
          </p>
        )}
        <div class="actions">
          <button type="button" class="button button-danger" disabled={busy} onClick={remove}>
            {busy ? "Deleting …" : "Delete"}
          </button>
          <button type="button" class="button" onClick={() => dialog.current?.close()}>
            Keep
          </button>
        </div>
      </dialog>
    </>
  );
}
