/** What the person's key may do. A control that it may not use is there, disabled, and the reason stands beside it. */

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import type { Me } from "./api/types";
import { me } from "./session";

export type Scope = Me["scopes"][number];

const ACTIONS: Readonly<Record<Scope, string>> = {
  read: "read what is here",
  "models:write": "add or change models and data",
  "builds:write": "request or change builds",
  "runs:write": "start or change runs",
  "devices:admin": "enrol or change devices",
  "keys:admin": "manage members and keys",
  "audit:read": "read the audit log",
};

/** Whether the key or session of this browser has the scope. */
export function may(scope: Scope): boolean {
  return me.value?.scopes.includes(scope) ?? false;
}

/** Why the person may not do what needs the scope, as a sentence; null where they may. */
export function whyNot(scope: Scope): string | null {
  if (may(scope)) return null;
  return `Your key may not ${ACTIONS[scope]}: it lacks the scope ${scope}. Ask an administrator for a key that has it.`;
}

interface NeedsProps {
  readonly scope: Scope;
  /** Beside other controls, such as a button: no box of its own, and the reason as the controls' tooltip and to screen
   * readers only. */
  readonly inline?: boolean;
  readonly children: ComponentChildren;
}

/** Disables every field and button inside where the key lacks the scope, and says why from the start. */
export function Needs({ scope, inline = false, children }: NeedsProps) {
  const id = useId();
  const reason = whyNot(scope);
  return (
    <fieldset
      class={inline ? "needs needs-inline" : "needs"}
      disabled={reason !== null}
      aria-describedby={reason === null ? undefined : id}
      title={inline && reason !== null ? reason : undefined}
    >
      {reason !== null && (
        <p class={inline ? "visually-hidden" : "needs-reason"} id={id}>
          {reason}
        </p>
      )}
      {children}
    </fieldset>
  );
}
