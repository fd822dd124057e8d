/** The members of the workspace: adding, changing, disabling. */

import { useState } from "preact/hooks";
import { patch, post, type Problem } from "../../../api/client";
import type { Member } from "../../../api/types";
import { curl, curlPost } from "../../../commands";
import { Ago } from "../../../components/ago";
import { ConfirmButton } from "../../../components/confirm_button";
import { Empty, Loaded, ProblemBox, Section, TableFrame } from "../../../components/page";
import { asProblem, useList } from "../../../data";
import * as format from "../../../format";
import { to } from "../../../router";
import { More } from "../../tables";
import { AdminPage } from "../frame";
import { ChangeMember, MemberFields } from "./member_form";
import { whyNotRole } from "../powers";

export function MembersView() {
  const { of, more } = useList<Member>("/members", 10_000);
  return (
    <AdminPage part="Members" command={curl("/members")}>
      <NewMember onAdded={of.reload} />
      <Section title="All members" note="People and scripts of this workspace, disabled ones too; newest first.">
        <Loaded of={of} what="members">
          {(members) =>
            members.length === 0 ? (
              <Empty title="No members yet.">
                <p>Keys stand for themselves until somebody is added.</p>
              </Empty>
            ) : (
              <MemberTable members={members} reload={of.reload} />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
    </AdminPage>
  );
}

const NOBODY = { name: "", email: "", role: "developer" } as const;

function NewMember({ onAdded }: { readonly onAdded: () => void }) {
  const [values, setValues] = useState<{ name: string; email: string; role: Member["role"] }>(NOBODY);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [added, setAdded] = useState<Member | null>(null);
  const order = { name: values.name.trim(), email: values.email.trim() || null, role: values.role };
  const add = (event: Event) => {
    event.preventDefault();
    post<Member>("/members", order).then(
      (member) => {
        setAdded(member);
        setProblem(null);
        setValues(NOBODY);
        onAdded();
      },
      (error: unknown) => setProblem(asProblem(error)),
    );
  };
  const reason = whyNotRole(values.role);
  return (
    <Section title="Add a member" command={curlPost("/members", order)}>
      <form onSubmit={add}>
        <MemberFields values={values} change={(changed) => setValues({ ...values, ...changed })} />
        {problem && <ProblemBox problem={problem} />}
        <div class="actions">
          <button class="button button-primary" disabled={reason !== null}>
            Add the member
          </button>
          {reason !== null && <span class="faint">{reason}</span>}
        </div>
      </form>
      <p role="status" class={added ? "note" : "visually-hidden"}>
        {added && (
          <>
            {added.name} is a member. Nobody can sign in as {added.name} before there is a key:{" "}
            <a href={to(["admin", "keys"], { member: added.id })}>make one</a>.
          </>
        )}
      </p>
    </Section>
  );
}

function MemberTable({ members, reload }: { readonly members: readonly Member[]; readonly reload: () => void }) {
  return (
    <TableFrame label="Members">
      <table>
        <thead>
          <tr>
            <th scope="col">Member</th>
            <th scope="col">E-mail</th>
            <th scope="col">Role</th>
            <th scope="col">Added</th>
            <th scope="col">Keys</th>
            <th scope="col">
              <span class="visually-hidden">Change</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {members.map((member) => (
            <tr key={member.id}>
              <td class="wrap">{member.name}</td>
              <td class="wrap">{member.email ?? format.NOTHING}</td>
              <td>
                {member.role}
                {member.disabled_at && (
                  <span class="faint">
                    , disabled <Ago time={member.disabled_at} />
                  </span>
                )}
              </td>
              <td>
                <Ago time={member.created_at} />
              </td>
              <td>
                {member.disabled_at ? (
                  format.NOTHING
                ) : (
                  <a href={to(["admin", "keys"], { member: member.id })} aria-label={`Make a key for ${member.name}`}>
                    Make a key
                  </a>
                )}
              </td>
              <td class="row-action">
                <MemberActions member={member} reload={reload} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function MemberActions({ member, reload }: { readonly member: Member; readonly reload: () => void }) {
  const why = whyNotRole(member.role);
  const change = (disabled: boolean) => patch<Member>(`/members/${member.id}`, { disabled });
  return (
    <span class="row-actions">
      <ChangeMember member={member} why={why} onChanged={reload} />
      {member.disabled_at === null ? (
        <ConfirmButton
          quiet
          verb="Disable"
          doing="Disabling"
          what={member.name}
          warning="All keys of this member open nothing until somebody lets the member in again, and their browsers are signed out."
          keep="Leave it"
          act={() => change(true)}
          why={why}
          onDone={reload}
        />
      ) : (
        <ConfirmButton
          quiet
          verb="Let in"
          doing="Letting in"
          what={member.name}
          warning="The member's keys that have not ended open again what the role allows."
          keep="Leave it"
          act={() => change(false)}
          why={why}
          onDone={reload}
        />
      )}
    </span>
  );
}
