/** The columns of the fleet's table. */

import type { ComponentChildren } from "preact";
import type { Device } from "../../api/types";
import { Ago } from "../../components/ago";
import { StateBadge } from "../../components/badge";
import * as format from "../../format";
import { link } from "../../router";
import type { Sort } from "./asked";

interface Column {
  readonly name: string;
  readonly sort?: Sort;
  readonly number?: boolean;
  readonly cell: (device: Device) => ComponentChildren;
}

/** The arrows go from row to row and Enter opens one: links in rows are no tab stops. */
export const COLUMNS: readonly Column[] = [
  {
    name: "Name",
    sort: "name",
    cell: ({ id, name, labels }) => (
      <a href={link.device(id)} tabIndex={-1} title={[name, labelText(labels)].filter(Boolean).join(": ")}>
        {name}
      </a>
    ),
  },
  { name: "State", sort: "state", cell: ({ state }) => <StateBadge state={state} /> },
  { name: "Target", sort: "target", cell: ({ target }) => <Text text={target} /> },
  { name: "Pool", sort: "pool", cell: ({ pool }) => <Text text={pool} /> },
  { name: "Temperature", sort: "temperature", number: true, cell: (device) => <Temperature device={device} /> },
  { name: "Memory", sort: "memory", number: true, cell: ({ memory_bytes }) => format.bytes(memory_bytes) },
  { name: "Agent", sort: "agent", cell: ({ agent_version }) => <Text text={agent_version} /> },
  { name: "Policy", cell: ({ resting }) => <Text text={resting ? `rests: ${resting.reason}` : null} /> },
  {
    name: "Present job",
    cell: ({ current_run_id, current_run_name }) =>
      current_run_id ? (
        <a href={link.run(current_run_id)} tabIndex={-1} title={current_run_name ?? ""}>
          {current_run_name ?? format.shortId(current_run_id)}
        </a>
      ) : (
        format.NOTHING
      ),
  },
  { name: "Last seen", sort: "seen", cell: ({ last_seen_at }) => <Ago time={last_seen_at} /> },
];

/** "room=attic, rack=3". */
export function labelText(labels: Device["labels"]): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(", ");
}

function Text({ text }: { readonly text: string | null }) {
  return text === null ? <>{format.NOTHING}</> : <span title={text}>{text}</span>;
}

export function Temperature({ device: { temperature_c, throttled } }: { readonly device: Device }) {
  const degrees = temperature_c === null ? format.NOTHING : format.celsius(temperature_c);
  return throttled ? <span class="fleet-hot">throttled, {degrees}</span> : <>{degrees}</>;
}
