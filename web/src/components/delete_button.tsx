/** A button that deletes after it was asked once more what it deletes. */

import { send } from "../api/client";
import { ConfirmButton } from "./confirm_button";

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

export function DeleteButton({ path, onDeleted, ...rest }: DeleteProps) {
  const act = () => send(path, { method: "DELETE" });
  return <ConfirmButton verb="Delete" doing="Deleting" act={act} onDone={onDeleted} {...rest} />;
}
