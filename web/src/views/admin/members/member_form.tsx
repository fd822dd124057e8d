/** The fields of a member, and the dialog that changes one. */

import { useRef, useState } from "preact/hooks";
import { patch } from "../../../api/client";
import type { Member } from "../../../api/types";
import { asProblem } from "../../../data";
import { ROLE_ALLOWS, ROLES, whyNotRole } from "../powers";

interface Values {
  readonly name: string;
  readonly email: string;
  readonly role: Member["role"];
}

interface FieldsProps {
  readonly values: Values;
  readonly change: (values: Partial<Values>) => void;
}

export function MemberFields({ values, change }: FieldsProps) {
  return (
    <div class="form-row">
      <label class="field">
        <span>Name of the person or script</span>
        <input
          type="text"
          required
          maxLength={200}
          value={values.name}
          onInput={(event) => change({ name: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        <span>E-mail, if there is one</span>
        <input
          type="text"
          inputMode="email"
          autoComplete="off"
          maxLength={254}
          value={values.email}
          onInput={(event) => change({ email: event.currentTarget.value })}
        />
      </label>
      <label class="field">
        <span>Role</span>
        <select
          value={values.role}
          onChange={(event) => change({ role: ROLES.find((role) => role === event.currentTarget.value) ?? "viewer" })}
        >
          {ROLES.map((role) => (
            <option key={role} value={role} disabled={whyNotRole(role) !== null}>
              {role}: {ROLE_ALLOWS[role]}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

interface ChangeProps {
  readonly member: Member;
  /** Why this person may not change the member, in a sentence; null where they may. */
  readonly why: string | null;
  readonly onChanged: () => void;
}

export function ChangeMember({ member, why, onChanged }: ChangeProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [values, setValues] = useState<Values>({ name: "", email: "", role: "viewer" });
  const [failure, setFailure] = useState<string | null>(null);
  const open = () => {
    setFailure(null);
    setValues({ name: member.name, email: member.email ?? "", role: member.role });
    dialog.current?.showModal();
  };
  const save = (event: Event) => {
    event.preventDefault();
    const email = values.email.trim() || null;
    patch<Member>(`/members/${member.id}`, { name: values.name.trim(), email, role: values.role }).then(
      () => {
        dialog.current?.close();
        onChanged();
      },
      (error: unknown) => setFailure(asProblem(error).detail),
    );
  };
  return (
    <>
      <button
        type="button"
        class="button button-quiet"
        aria-label={`Change ${member.name}`}
        disabled={why !== null}
        title={why ?? ""}
        onClick={open}
      >
        Change
      </button>
      <dialog ref={dialog} class="ask" aria-label={`Change ${member.name}`}>
        <form onSubmit={save}>
          <h2>Change {member.name}</h2>
          <p>A new role holds at once, for the member&apos;s keys and browsers, too.</p>
          <MemberFields values={values} change={(changed) => setValues({ ...values, ...changed })} />
          {failure !== null && (
            <p class="problem" role="alert">
              {failure}
            </p>
          )}
          <div class="actions">
            <button class="button button-primary">Save</button>
            <button type="button" class="button" onClick={() => dialog.current?.close()}>
              Leave it
            </button>
          </div>
        </form>
      </dialog>
    </>
  );
}
