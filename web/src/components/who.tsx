/** Who is signed in, as what, and the way out. */

import { useState } from "preact/hooks";
import { signOut } from "../api/account";
import type { Me } from "../api/types";
import { asProblem } from "../data";

export function Who({ who }: { readonly who: Me }) {
  const [failure, setFailure] = useState<string | null>(null);
  const leave = () => {
    signOut().catch((error: unknown) => setFailure(asProblem(error).detail));
  };
  return (
    <div class="who">
      <p>
        <span class="who-name">{who.name}</span> <span class="who-role">{who.member?.role ?? "key"}</span>{" "}
        <span class="who-workspace">{who.workspace.name}</span>
      </p>
      <button type="button" class="button" onClick={leave}>
        Sign out
      </button>
      {failure !== null && <p role="alert">Not signed out: {failure}</p>}
    </div>
  );
}
