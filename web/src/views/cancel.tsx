/** The button that cancels a build or a run, once it has asked. */

import { post } from "../api/client";
import { ConfirmButton } from "../components/confirm_button";
import { CopyButton } from "../components/copy";
import { curlPost } from "../commands";
import { type Scope, whyNot } from "../permission";

interface CancelProps {
  readonly path: string;
  readonly what: "build" | "run";
  readonly onCancelled: () => void;
}

const TOLD: Readonly<Record<CancelProps["what"], { readonly scope: Scope; readonly warning: string }>> = {
  build: { scope: "builds:write", warning: "What has been compiled of it so far is lost." },
  run: { scope: "runs:write", warning: "Its device stops, and keeps no weights of it. The steps that it told stay." },
};

export function Cancel({ path, what, onCancelled }: CancelProps) {
  const { scope, warning } = TOLD[what];
  return (
    <>
      <ConfirmButton
        verb="Cancel"
        doing="Cancelling"
        what={what}
        warning={warning}
        keep="Leave it"
        act={() => post<unknown>(`${path}/cancel`, {})}
        why={whyNot(scope)}
        onDone={onCancelled}
      />
      <CopyButton text={curlPost(`${path}/cancel`, {})} of={`cancelling this ${what}`} />
    </>
  );
}
