/** The audit log: who changed what, found by action, person, object and time; all of it is in the address. */

import { BASE } from "../../../api/client";
import type { AuditEntry } from "../../../api/types";
import { curl } from "../../../commands";
import { At } from "../../../components/ago";
import { CopyButton } from "../../../components/copy";
import { ByAndBy, Later } from "../../../components/later";
import { memo } from "../../../components/memo";
import { Empty, isSettled, Loaded, Section, TableFrame } from "../../../components/page";
import { useList } from "../../../data";
import * as format from "../../../format";
import { whyNot } from "../../../permission";
import { address, link, setQuery, useKept } from "../../../router";
import { More } from "../../tables";
import { auditQuery, changeText, localField, momentOf, PARTS, type Part } from "./filter";
import { AdminPage } from "../frame";

export function AuditView() {
  const query = address.value?.query ?? new URLSearchParams();
  const asked = auditQuery(query);
  const { of, more } = useList<AuditEntry>(whyNot("audit:read") === null ? `/audit${asked}` : null, 10_000);
  return (
    <AdminPage part="Audit log" command={curl(`/audit${asked}`)}>
      <Section title="Changes" note="What people changed, and devices that came and went; newest first.">
        <Filters query={query} entries={of.data ?? []} />
        <Loaded of={of} what="the audit log">
          {(entries) =>
            entries.length === 0 ? (
              <Empty title={asked ? "Nothing like this has happened." : "Nothing has happened yet."} />
            ) : (
              <EntryTable entries={entries} />
            )
          }
        </Loaded>
        <More more={more} />
      </Section>
      {isSettled(of) && (
        <Later>
          <Section title="Keep it elsewhere" note="Everything that the filter finds, one entry a line, oldest first.">
            <p class="actions">
              <a class="button" href={`${BASE}/audit/export${asked}`} download="audit.jsonl">
                Download as JSON lines
              </a>
              <CopyButton text={curl(`/audit/export${asked}`)} of="the export" />
            </p>
          </Section>
        </Later>
      )}
    </AdminPage>
  );
}

interface FiltersProps {
  readonly query: URLSearchParams;
  readonly entries: readonly AuditEntry[];
}

/** Only names, kinds and ids that the server knows are sent to it: these hold nothing else. */
const WORD = "[a-z0-9_.\\-]{1,64}";

function Filters({ query, entries }: FiltersProps) {
  const actions = [...new Set(entries.map(({ action }) => action))].sort();
  const kinds = [...new Set(entries.map(({ object }) => object.kind))].sort();
  return (
    <div role="search">
      <div class="form-row">
        <Word part="action" name="Action, such as device.revoke" known={actions} query={query} />
        <Word part="kind" name="Kind of object, such as device" known={kinds} query={query} />
        <Moment part="since" name="From, in your time zone" query={query} />
        <Moment part="until" name="Before, in your time zone" query={query} />
      </div>
      <Chips query={query} entries={entries} />
    </div>
  );
}

interface WordProps {
  readonly part: Part;
  readonly name: string;
  readonly known: readonly string[];
  readonly query: URLSearchParams;
}

function Word({ part, name, known, query }: WordProps) {
  const list = `audit-${part}`;
  return (
    <label class="field">
      <span>{name}</span>
      <input
        type="text"
        list={list}
        pattern={WORD}
        maxLength={64}
        value={query.get(part) ?? ""}
        onChange={({ currentTarget: field }) => {
          if (field.reportValidity()) setQuery({ [part]: field.value || null });
        }}
      />
      <datalist id={list}>
        {known.map((word) => (
          <option key={word} value={word} />
        ))}
      </datalist>
    </label>
  );
}

interface MomentProps {
  readonly part: "since" | "until";
  readonly name: string;
  readonly query: URLSearchParams;
}

function Moment({ part, name, query }: MomentProps) {
  return (
    <label class="field">
      <span>{name}</span>
      <input
        type="datetime-local"
        value={localField(query.get(part))}
        onChange={(event) => setQuery({ [part]: momentOf(event.currentTarget.value) })}
      />
    </label>
  );
}

/** Person, key and object are chosen in the table; here they are told, and taken back. */
function Chips({ query, entries }: FiltersProps) {
  const [first] = entries;
  const chosen: readonly (readonly [Part, string, string | undefined])[] = [
    ["member", "By", first?.actor.name],
    ["key", "With the key of", first?.actor.name],
    ["object", "Only", first?.object.name],
  ];
  const shown = chosen.filter(([part]) => query.get(part));
  const all = PARTS.filter((part) => query.get(part));
  if (all.length === 0) return null;
  return (
    <ul class="audit-chips" aria-label="Filters in use">
      {shown.map(([part, words, name]) => (
        <li key={part}>
          {words} {name ?? format.shortId(query.get(part) ?? "")}
          <button type="button" class="button" onClick={() => setQuery({ [part]: null })}>
            any
          </button>
        </li>
      ))}
      <li class="audit-all">
        {" "}
        <button
          type="button"
          class="button"
          onClick={() => setQuery(Object.fromEntries(PARTS.map((part) => [part, null])))}
        >
          Show everything
        </button>
      </li>
    </ul>
  );
}

function EntryTable({ entries }: { readonly entries: readonly AuditEntry[] }) {
  return (
    <TableFrame label="Audit log">
      <table>
        <thead>
          <tr>
            <th scope="col">When</th>
            <th scope="col">Who</th>
            <th scope="col">Action</th>
            <th scope="col">What</th>
            <th scope="col">Changes</th>
          </tr>
        </thead>
        <tbody>
          <ByAndBy of={entries}>{(entry) => <EntryRow key={entry.id} entry={entry} />}</ByAndBy>
        </tbody>
      </table>
    </TableFrame>
  );
}

const EntryRow = memo(function EntryRow({ entry }: { readonly entry: AuditEntry }) {
  const { at, actor, action, object } = entry;
  const kind = KINDS[actor.kind];
  return (
    <tr>
      <td>
        <At time={at} />
      </td>
      <td class="audit-who">
        <Only of={`by ${actor.name}`} query={whoQuery(entry)}>
          {actor.name}
        </Only>
        {kind !== "" && kind !== actor.name && <span class="faint">, {kind}</span>}
      </td>
      <td>
        <Only of={`of ${action}`} query={{ action }}>
          {action}
        </Only>
      </td>
      <td class="audit-what">
        <Only of={`about ${object.name}`} query={{ kind: object.kind, object: object.id }}>
          {object.name || format.shortId(object.id)}
        </Only>{" "}
        <View of={entry} />
      </td>
      <td>
        <Changes of={entry} />
      </td>
    </tr>
  );
});

const KINDS: Readonly<Record<AuditEntry["actor"]["kind"], string>> = {
  session: "",
  api_key: "by key",
  device: "a device",
  command_line: "on the command line",
  service: "the service",
};

/** The filter for what the same person does; a key of nobody stands for itself. */
function whoQuery({ actor }: AuditEntry): Partial<Record<Part, string>> | null {
  if (actor.member_id) return { member: actor.member_id };
  return actor.key_id ? { key: actor.key_id } : null;
}

interface OnlyProps {
  readonly of: string;
  readonly query: Partial<Record<Part, string>> | null;
  readonly children: string;
}

/** A cell that shows only entries like its own when it is chosen. */
function Only({ of, query, children }: OnlyProps) {
  if (query === null) return <>{children}</>;
  return (
    <button type="button" class="link-button" title={`Only changes ${of}`} onClick={() => setQuery(query)}>
      {children}
    </button>
  );
}

const VIEWS: Readonly<Partial<Record<string, (id: string) => string>>> = {
  device: link.device,
  model: link.model,
  dataset: link.dataset,
  build: link.build,
  run: link.run,
};

function View({ of: { object, action } }: { readonly of: AuditEntry }) {
  const href = VIEWS[object.kind]?.(object.id);
  if (!href || action.endsWith(".delete")) return null;
  return (
    <a href={href} aria-label={`Open ${object.name}`}>
      open
    </a>
  );
}

function Changes({ of: entry }: { readonly of: AuditEntry }) {
  const [open, setOpen] = useKept(`audit ${entry.id}`, false);
  const changed = Object.entries(entry.changes);
  const [first] = changed;
  const more = changed.length - 1;
  return (
    <details class="audit-changes" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        {first ? `${first[0]}: ${changeText(first[1])}` : "how"}
        {more > 0 && <span class="faint"> and {more} more</span>}
      </summary>
      <dl class="facts">
        {[
          ...changed.map(([field, change]) => [field, changeText(change)] as const),
          ["from", entry.address ?? format.NOTHING] as const,
          ["with", entry.user_agent ?? format.NOTHING] as const,
          ["request", entry.request_id ?? format.NOTHING] as const,
        ].map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
