/** Times: how long ago something was, how soon it will be, or when; each says in its title when that is in UTC. */

import * as format from "../format";
import { useClock } from "../hooks";

export function Ago({ time }: { readonly time: string | null | undefined }) {
  const text = useClock((now) => format.ago(time, now));
  if (!time) return <>{text}</>;
  return (
    <time dateTime={time} title={`${format.timestamp(time)} (${format.utc(time)})`}>
      {text}
    </time>
  );
}

/** How long it is until then, for what ends. */
export function Until({ time }: { readonly time: string }) {
  const text = useClock((now) => format.until(time, now));
  return (
    <time dateTime={time} title={`${format.timestamp(time)} (${format.utc(time)})`}>
      {text}
    </time>
  );
}

interface AtProps {
  readonly time: string;
  /** Without the day, where it is today. */
  readonly clock?: boolean;
}

/** When it is for the person who reads it. */
export function At({ time, clock = false }: AtProps) {
  return (
    <time dateTime={time} title={format.utc(time)}>
      {clock ? format.clock(Date.parse(time)) : format.timestamp(time)}
    </time>
  );
}
