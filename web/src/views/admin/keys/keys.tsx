/** The API keys of the workspace: making one, and revoking. */

import { send } from "../../../api/client";
import type { ApiKey } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago, Until } from "../../../components/ago";
import { ConfirmButton } from "../../../components/confirm_button";
import { Empty, Loaded, Section, TableFrame } from "../../../components/page";
import { useList } from "../../../data";
import { useNow } from "../../../hooks";
import { me, signedOut } from "../../../session";
import { More } from "../../tables";
import { AdminPage } from "../frame";
import { NewKey } from "./new_key";
import { SCOPES } from "../powers";

export function KeysView() {
  const list = useList<ApiKey>("/api-keys", 10_000);
  return (
    <AdminPage part="API keys" command={curl("/api-keys")}>
      <NewKey onMade={list.of.reload} />
      <KeyList path="/api-keys" title="All keys" note="Of everybody in this workspace, ended ones too; newest first." />
    </AdminPage>
  );
}

interface KeyListProps {
  readonly path: "/api-keys" | "/me/api-keys";
  readonly title: string;
  readonly note: string;
}

export function KeyList({ path, title, note }: KeyListProps) {
  const { of, more } = useList<ApiKey>(path, 10_000);
  return (
    <Section title={title} note={note} command={curl(path)}>
      <Loaded of={of} what="keys">
        {(keys) =>
          keys.length === 0 ? (
            <Empty title="No keys." />
          ) : (
            <KeyTable keys={keys} path={path} label={title} reload={of.reload} />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
}

interface TableProps {
  readonly keys: readonly ApiKey[];
  readonly path: string;
  readonly label: string;
  readonly reload: () => void;
}

function KeyTable({ keys, path, label, reload }: TableProps) {
  return (
    <TableFrame label={label}>
      <table>
        <thead>
          <tr>
            <th scope="col">Key</th>
            <th scope="col">Whose</th>
            <th scope="col">Scopes</th>
            <th scope="col">Made</th>
            <th scope="col">Ends</th>
            <th scope="col">
              <span class="visually-hidden">Revoke</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {keys.map((key) => (
            <tr key={key.id}>
              <td class="wrap">
                {key.name} {key.id === me.value?.key.id && <span class="tag">in use here</span>}
              </td>
              <td class="wrap">{key.member_name ?? <span class="faint">its own</span>}</td>
              <td class="scopes">
                {SCOPES.map(([scope]) => scope)
                  .filter((scope) => key.scopes.includes(scope))
                  .join(", ")}
              </td>
              <td>
                <Ago time={key.created_at} />
              </td>
              <td class="nowrap">
                <Ends of={key} />
              </td>
              <td class="row-action">
                <RevokeButton of={key} path={path} reload={reload} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function isOver({ expires_at, revoked_at }: ApiKey, now: number): boolean {
  return revoked_at !== null || Date.parse(expires_at) <= now;
}

function Ends({ of }: { readonly of: ApiKey }) {
  const over = isOver(of, useNow());
  if (!over) return <Until time={of.expires_at} />;
  return (
    <span class="faint">
      {of.revoked_at ? "revoked" : "expired"} <Ago time={of.revoked_at ?? of.expires_at} />
    </span>
  );
}

interface RevokeProps {
  readonly of: ApiKey;
  readonly path: string;
  readonly reload: () => void;
}

function RevokeButton({ of, path, reload }: RevokeProps) {
  if (of.revoked_at !== null || Date.parse(of.expires_at) <= Date.now()) return null;
  const own = of.id === me.value?.key.id;
  const loss =
    "It opens nothing from now on, and browsers that signed in with it are signed out. There is no way back.";
  return (
    <ConfirmButton
      quiet
      verb="Revoke"
      doing="Revoking"
      what={`the key ${of.name}`}
      warning={own ? `This browser signed in with it: you will be signed out. ${loss}` : loss}
      act={() => send(`${path}/${of.id}`, { method: "DELETE" })}
      why={null}
      onDone={() => (own ? signedOut("You have revoked the key of this session.") : reload())}
    />
  );
}
