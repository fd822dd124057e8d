/** The form that makes a key, and the key itself: the server tells it once. */

import { useState } from "preact/hooks";
import { type Page as Answer, post, type Problem } from "../../../api/client";
import type { ApiKeyCreated, Member } from "../../../api/types";
import { curlPost } from "../../../commands";
import { ProblemBox, Section } from "../../../components/page";
import { ShownOnce } from "../../../components/shown_once";
import { asProblem, useResource } from "../../../data";
import type { Scope } from "../../../permission";
import { address, setQuery } from "../../../router";
import { SCOPES, whyNotGrant } from "../powers";

const LONGEST_DAYS = 90;
const USUAL_DAYS = 30;

export function NewKey({ onMade }: { readonly onMade: () => void }) {
  const [made, setMade] = useState<ApiKeyCreated | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const [name, setName] = useState("");
  const [wanted, setWanted] = useState<readonly Scope[]>(["read"]);
  const [days, setDays] = useState(String(USUAL_DAYS));
  const members = useMembers();
  const member = members.chosen;
  const scopes = wanted.filter((scope) => whyNotGrant(scope, member) === null);
  const order = { name: name.trim(), member_id: member?.id ?? null, scopes, ttl_days: Number(days) };
  const make = (event: Event) => {
    event.preventDefault();
    setBusy(true);
    post<ApiKeyCreated>("/api-keys", order)
      .then(
        (key) => {
          setMade(key);
          setProblem(null);
          setName("");
          onMade();
        },
        (error: unknown) => setProblem(asProblem(error)),
      )
      .finally(() => setBusy(false));
  };
  return (
    <Section title="Make a key" command={curlPost("/api-keys", order)}>
      {made && (
        <ShownOnce
          what="key"
          advice={`Whoever has it can do what “${made.name}” may. Copy it now, and keep it where only its owner reads it; the service stores a hash of it.`}
          secret={made.key}
          onKept={() => setMade(null)}
        />
      )}
      <form onSubmit={make}>
        <div class="form-row">
          <label class="field">
            <span>Name, which tells what it is for</span>
            <input
              type="text"
              required
              maxLength={200}
              value={name}
              onInput={(event) => setName(event.currentTarget.value)}
            />
          </label>
          <label class="field">
            <span>Whose key it is</span>
            <select
              value={member?.id ?? ""}
              onChange={(event) => setQuery({ member: event.currentTarget.value || null })}
            >
              <option value="">Nobody’s: it stands for itself</option>
              {members.all.map(({ id, name: who, role }) => (
                <option key={id} value={id}>
                  {who}, {role}
                </option>
              ))}
            </select>
          </label>
          <label class="field">
            <span>Days until it ends, 1 to {LONGEST_DAYS}</span>
            <input
              type="number"
              required
              min={1}
              max={LONGEST_DAYS}
              value={days}
              onInput={(event) => setDays(event.currentTarget.value)}
            />
          </label>
        </div>
        <Scopes scopes={scopes} member={member} choose={setWanted} />
        {problem && <ProblemBox problem={problem} />}
        <div class="actions">
          <button class="button button-primary" disabled={busy || scopes.length === 0}>
            {busy ? "Making …" : "Make the key"}
          </button>
          {scopes.length === 0 && <span class="faint">Choose at least one scope.</span>}
        </div>
      </form>
    </Section>
  );
}

interface ScopesProps {
  readonly scopes: readonly Scope[];
  readonly member: Member | null;
  readonly choose: (scopes: readonly Scope[]) => void;
}

function Scopes({ scopes, member, choose }: ScopesProps) {
  return (
    <fieldset class="scope-list">
      <legend>What it may do</legend>
      {SCOPES.map(([scope, allows]) => {
        const reason = whyNotGrant(scope, member);
        const toggle = (on: boolean) => choose(on ? [...scopes, scope] : scopes.filter((other) => other !== scope));
        return (
          <label key={scope} class={reason === null ? "scope" : "scope scope-closed"}>
            <input
              type="checkbox"
              name={scope}
              checked={scopes.includes(scope)}
              disabled={reason !== null}
              onChange={(event) => toggle(event.currentTarget.checked)}
            />
            <span class="scope-name mono">{scope}</span>
            <span>
              {allows} {reason !== null && <em>{reason}</em>}
            </span>
          </label>
        );
      })}
    </fieldset>
  );
}

/** The newest members who are let in, and the one of the address, who may be older. */
function useMembers(): { readonly all: readonly Member[]; readonly chosen: Member | null } {
  const id = address.value?.query.get("member") ?? null;
  const newest = useResource<Answer<Member>>("/members?limit=200");
  const one = useResource<Member>(id === null ? null : `/members/${encodeURIComponent(id)}`);
  const chosen = id === null ? null : one.data;
  const all = (newest.data?.items ?? []).filter(({ disabled_at }) => disabled_at === null);
  const missing = chosen !== null && all.every((member) => member.id !== chosen.id);
  return { all: missing ? [...all, chosen] : all, chosen };
}
