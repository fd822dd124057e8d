/** The button beside the fleet's filters that changes the rules of the chosen pool. */

import { useState } from "preact/hooks";
import { Needs } from "../../../permission";
import { RulesDialog } from "./dialog";
import { ofPool } from "./rules";
import "../../../styles/rules.css";

export function PoolRules({ pool }: { readonly pool: string }) {
  const [open, setOpen] = useState(false);
  const [said, setSaid] = useState("");
  return (
    <div class="pool-rules">
      <Needs scope="devices:admin" inline>
        <button
          type="button"
          class="button"
          onClick={() => {
            setSaid("");
            setOpen(true);
          }}
        >
          Rules of pool {pool} …
        </button>
      </Needs>
      <span role="status">{said}</span>
      {open && (
        <RulesDialog
          subject={ofPool(pool)}
          seen={null}
          onClose={() => setOpen(false)}
          onDone={(done) => {
            setOpen(false);
            setSaid(`The rules are ${done}.`);
          }}
        />
      )}
    </div>
  );
}
