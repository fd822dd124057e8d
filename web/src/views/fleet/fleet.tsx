/** The fleet: any number of devices, searched, sorted and counted by the service. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { DeviceTotals } from "../../api/types";
import { curl } from "../../commands";
import { CopyButton } from "../../components/copy";
import { Later } from "../../components/later";
import { Empty, Page, Section } from "../../components/page";
import { SELDOM_MS, useResource } from "../../data";
import { useChanges } from "../../hooks";
import { address } from "../../router";
import { askedOf, listPath, totalsPath } from "./asked";
import { BulkActions } from "./bulk/bulk";
import { EnrolButton, Enrolment } from "./enrol/enrol";
import { useRows } from "./rows";
import { PoolRules } from "./rules/pool_rules";
import { useSelection } from "./selection";
import { FleetTable, HEAD, ROW } from "./table";
import { exact, StateChips, Tools } from "./tools";
import { useVirtual } from "./virtual";
import "../../styles/uploads.css";
import "../../styles/fleet.css";

/** Devices come and go all the time in a large fleet: rows and counts are renewed no more often. */
const ROWS_MS = 2000;
const COUNTS_MS = 5000;

export function FleetView() {
  const all = useResource<DeviceTotals>("/device-totals", SELDOM_MS);
  return (
    <Page title="Fleet" command={curl("/devices")} aside={<EnrolButton />}>
      <Enrolment />
      {all.data?.total === 0 ? (
        <NothingYet />
      ) : (
        <Later>
          <Devices all={all.data} recount={all.reload} />
        </Later>
      )}
    </Page>
  );
}

function NothingYet() {
  return (
    <Section title="Devices">
      <Empty title="No devices yet.">
        <p>
          <a href="#/fleet?enrol=1">Enrol a device</a> with one command.
        </p>
      </Empty>
    </Section>
  );
}

interface DevicesProps {
  /** Of the whole fleet; null until it is known. */
  readonly all: DeviceTotals | null;
  readonly recount: () => void;
}

function Devices({ all, recount }: DevicesProps) {
  const asked = askedOf(address.value?.query ?? new URLSearchParams());
  const path = listPath(asked);
  const counts = useResource<DeviceTotals>(totalsPath(asked), SELDOM_MS);
  const [count, setCount] = useState(0);
  const virtual = useVirtual(count, ROW, HEAD);
  const rows = useRows(path, virtual.items[0]?.index ?? 0, virtual.items.at(-1)?.index ?? 0);
  const selection = useSelection(path);
  useEffect(() => setCount(rows.total ?? 0), [rows.total]);
  useTop(virtual.frame, path);
  useChanges("devices", rows.reload, ROWS_MS);
  useChanges(
    "devices",
    () => {
      counts.reload();
      recount();
    },
    COUNTS_MS,
  );
  return (
    <section class="card fleet" aria-label="Devices">
      <Tools asked={asked} all={all} />
      <StateChips asked={asked} totals={counts.data} />
      <div class="fleet-bar">
        <p role="status">{rows.total !== null && summary(rows.total)}</p>
        <CopyButton text={curl(path)} of="the devices shown" />
        {asked.pool !== "" && <PoolRules key={asked.pool} pool={asked.pool} />}
        <BulkActions
          asked={asked}
          total={rows.total ?? 0}
          selection={selection}
          onChanged={() => {
            rows.reload();
            counts.reload();
          }}
        />
      </div>
      <FleetTable asked={asked} rows={rows} virtual={virtual} selection={selection} />
      {rows.total === 0 && <Empty title="No device matches." />}
    </section>
  );
}

function summary(count: number): string {
  return `${exact(count)} ${count === 1 ? "device" : "devices"}`;
}

/** Another list begins at its top; the first one where the person left it. */
function useTop(frame: { current: HTMLDivElement | null }, path: string): void {
  const last = useRef(path);
  useEffect(() => {
    if (last.current !== path) frame.current?.scrollTo({ top: 0 });
    last.current = path;
  }, [frame, path]);
}
