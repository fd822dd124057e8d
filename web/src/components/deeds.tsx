/** The buttons of what can be done with work that goes on; each asks first. */

import { post } from "../api/client";
import { ConfirmButton } from "./confirm_button";
import { type Deed, whyNotNow } from "./deed";

interface DeedsProps<State extends string> {
  readonly deeds: readonly Deed<State>[];
  readonly state: State;
  readonly what: string;
  readonly path: string;
  /** Why nothing of it may be done, in a sentence; null where it may. */
  readonly refused: string | null;
  readonly onDone: () => void;
}

export function Deeds<State extends string>({ deeds, state, what, path, refused, onDone }: DeedsProps<State>) {
  return (
    <>
      {deeds.map((deed) => (
        <ConfirmButton
          key={deed.path}
          verb={deed.verb}
          doing={deed.doing}
          what={what}
          warning={deed.warning}
          keep="Leave it"
          act={() => post<unknown>(`${path}/${deed.path}`, {})}
          why={refused ?? whyNotNow(deed, state)}
          onDone={onDone}
        />
      ))}
    </>
  );
}
