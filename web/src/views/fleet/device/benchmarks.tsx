/** What a device measured: the median of each benchmark, and whether it can be trusted. */

import type { Benchmark } from "../../../api/types";
import { curl } from "../../../commands";
import { Ago } from "../../../components/ago";
import { StateBadge } from "../../../components/badge";
import { Empty, Loaded, Section, TableFrame } from "../../../components/page";
import { SELDOM_MS, useList } from "../../../data";
import * as format from "../../../format";
import { link } from "../../../router";
import { More } from "../../tables";
import { intervalText, trustText } from "../../verdicts";

/** What `useList` takes to ask for a device's benchmarks. */
export function benchmarksOf(deviceId: string): [path: string, everyMs: number, limit: number] {
  return [`/benchmarks?device_id=${deviceId}`, SELDOM_MS, 20];
}

export function Benchmarks({ deviceId }: { readonly deviceId: string }) {
  const [path, ...how] = benchmarksOf(deviceId);
  const { of, more } = useList<Benchmark>(path, ...how);
  return (
    <Section title="Benchmarks" command={curl(path)}>
      <Loaded of={of} what="benchmarks">
        {(items) =>
          items.length === 0 ? (
            <Empty title="Nothing has been measured on this device yet." />
          ) : (
            <BenchmarkTable items={items} />
          )
        }
      </Loaded>
      <More more={more} />
    </Section>
  );
}

function BenchmarkTable({ items }: { readonly items: readonly Benchmark[] }) {
  return (
    <TableFrame label="Benchmarks of this device">
      <table>
        <thead>
          <tr>
            <th scope="col">Build</th>
            <th scope="col">State</th>
            <th scope="col" class="number">
              Step median
            </th>
            <th scope="col" class="number">
              95 %
            </th>
            <th scope="col">Trust</th>
            <th scope="col">Run</th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {items.map((one) => (
            <tr key={one.id}>
              <td>
                <a href={link.build(one.build_id)}>{one.build_name}</a> <span class="faint">{one.target}</span>
              </td>
              <td>
                <StateBadge state={one.state} />
              </td>
              <td class="number">{format.milliseconds(one.verdict?.median_ms)}</td>
              <td class="number">{intervalText(one)}</td>
              <td>{trustText(one)}</td>
              <td>
                <a href={link.run(one.run_id)}>
                  {one.steps} steps × {one.repeats_wanted}
                </a>
              </td>
              <td>
                <Ago time={one.created_at} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </TableFrame>
  );
}
