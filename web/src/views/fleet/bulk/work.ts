/** The same change of many devices, a few at a time. Knows no page. */

import { get, type Page, send } from "../../../api/client";
import { patiently, type Waits } from "../../../api/patience";
import type { Device } from "../../../api/types";
import { type Asked, filterQuery } from "../asked";
import type { Chosen } from "../selection";

const AT_ONCE = 4;
const PAGE = 200;

export type Change =
  | { readonly kind: "revoke" }
  | { readonly kind: "pool"; readonly pool: string }
  | { readonly kind: "labels"; readonly labels: Readonly<Record<string, string | null>> };

export interface Outcome {
  readonly device: Chosen;
  /** Null where it is done. */
  readonly error: unknown;
}

/** All devices that match, in an order that nothing changes meanwhile. */
export async function gather(asked: Asked, signal: AbortSignal, found: (count: number) => void): Promise<Chosen[]> {
  const query = filterQuery(asked);
  query.set("facts", "false");
  query.set("limit", String(PAGE));
  const devices: Chosen[] = [];
  for (let cursor: string | null = ""; cursor !== null;) {
    if (cursor) query.set("cursor", cursor);
    const page: Page<Device> = await get<Page<Device>>(`/devices?${query.toString()}`, signal);
    devices.push(...page.items.map(({ id, name }) => ({ id, name })));
    found(devices.length);
    cursor = page.next_cursor;
  }
  return devices;
}

/** Tells of each device as it is done or refused; after `signal` none is begun. */
export async function applyToEach(
  devices: readonly Chosen[],
  act: (device: Chosen) => Promise<unknown>,
  signal: AbortSignal,
  done: (outcome: Outcome) => void,
  waits: Waits,
): Promise<void> {
  const left = devices.values();
  const work = async () => {
    for (const device of left) {
      if (signal.aborted) return;
      done({ device, error: await patiently(() => act(device), waits, signal).then(() => null, asIs) });
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
}

const asIs = (error: unknown) => error;

export function changeOne(change: Change, { id }: Chosen): Promise<unknown> {
  if (change.kind === "revoke") return send(`/devices/${id}`, { method: "DELETE" });
  const body = JSON.stringify(change.kind === "pool" ? { pool: change.pool } : { labels: change.labels });
  return send(`/devices/${id}`, { method: "PATCH", headers: { "Content-Type": "application/json" }, body });
}
