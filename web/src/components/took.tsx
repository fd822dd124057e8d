/** How long something took, or has taken so far: only this text is drawn again as time passes. */

import * as format from "../format";
import { useClock } from "../hooks";

interface TookProps {
  readonly start: string | null | undefined;
  readonly end: string | null | undefined;
}

export function Took({ start, end }: TookProps) {
  return <>{useClock((now) => format.duration(start, end, now))}</>;
}
