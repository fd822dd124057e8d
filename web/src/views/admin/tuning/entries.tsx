/** What is known of workloads, found by target, family, and whether it was decided; all of it is in the address. */

import type { TuningEntry } from "../../../api/types";
import { Ago } from "../../../components/ago";
import { TableFrame } from "../../../components/page";
import * as format from "../../../format";
import { address, setQuery, useKept } from "../../../router";

/** The path of the entries that the address asks for. */
export function entriesPath(): string {
  const query = address.value?.query ?? new URLSearchParams();
  const asked = new URLSearchParams();
  for (const name of ["target", "family"]) {
    const value = query.get(name);
    if (value) asked.set(name, value);
  }
  const known = query.get("known");
  if (known === "true" || known === "false") asked.set("known", known);
  const text = asked.toString();
  return text ? `/tuning?${text}` : "/tuning";
}

export function EntryFilters({ entries }: { readonly entries: readonly TuningEntry[] }) {
  const query = address.value?.query ?? new URLSearchParams();
  return (
    <div class="form-row" role="search">
      <Choice name="target" label="Target" values={entries.map(({ target }) => target)} query={query} />
      <Choice name="family" label="Family of kernels" values={entries.map(({ family }) => family)} query={query} />
      <label class="field">
        <span>Decided</span>
        <select
          value={query.get("known") ?? ""}
          onChange={(event) => setQuery({ known: event.currentTarget.value || null })}
        >
          <option value="">or not</option>
          <option value="true">yes</option>
          <option value="false">not yet</option>
        </select>
      </label>
    </div>
  );
}

interface ChoiceProps {
  readonly name: "target" | "family";
  readonly label: string;
  readonly values: readonly string[];
  readonly query: URLSearchParams;
}

function Choice({ name, label, values, query }: ChoiceProps) {
  const chosen = query.get(name) ?? "";
  const all = [...new Set(chosen === "" ? values : [...values, chosen])].sort();
  return (
    <label class="field">
      <span>{label}</span>
      <select value={chosen} onChange={(event) => setQuery({ [name]: event.currentTarget.value || null })}>
        <option value="">any</option>
        {all.map((value) => (
          <option key={value} value={value}>
            {value}
          </option>
        ))}
      </select>
    </label>
  );
}

export function EntryTable({ entries }: { readonly entries: readonly TuningEntry[] }) {
  return (
    <TableFrame label="What is known">
      <table>
        <thead>
          <tr>
            <th scope="col">Family</th>
            <th scope="col">Target</th>
            <th scope="col">Choice</th>
            <th scope="col" class="number">
              Time
            </th>
            <th scope="col" class="number">
              Against the model&apos;s choice
            </th>
            <th scope="col">Known by</th>
            <th scope="col">Decided</th>
            <th scope="col">Workload</th>
          </tr>
        </thead>
        <tbody>
          {entries.map((entry) => (
            <tr key={entry.id}>
              <td>{entry.family}</td>
              <td>{entry.target}</td>
              <td class="wrap mono">{entry.choice_text ?? format.NOTHING}</td>
              <td class="number">{format.milliseconds(entry.ms)}</td>
              <td class="number">
                {entry.ms !== null && entry.model_ms !== null
                  ? format.deviation(entry.ms, entry.model_ms)
                  : format.NOTHING}
              </td>
              <td>{sourceText(entry)}</td>
              <td>{entry.decided_at ? <Ago time={entry.decided_at} /> : "not yet"}</td>
              <td>
                <Workload of={entry} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}

function sourceText({ source, devices }: TuningEntry): string {
  if (source === "import") return "a file";
  return devices === 1 ? "1 device" : `${devices} devices`;
}

function Workload({ of }: { readonly of: TuningEntry }) {
  const [open, setOpen] = useKept(`tuning ${of.id}`, false);
  return (
    <details class="audit-changes" open={open} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary class="mono">{format.shortDigest(of.key)}</summary>
      <dl class="facts">
        {Object.entries(of.inputs).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </details>
  );
}
