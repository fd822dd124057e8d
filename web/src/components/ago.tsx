/** How long ago something was, in the present's words; the exact time is in its title, local and in UTC. */

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
