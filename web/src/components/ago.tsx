/** How long ago something was, or how soon it will be; the exact time is in its title, local and in UTC. */

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
