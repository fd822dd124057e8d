/** That the service takes no more requests for a while, and when it goes on. */

import { waitsText } from "../api/patience";

export function WaitsNote({ seconds }: { readonly seconds: number | null }) {
  return (
    <p class="note" role="status" hidden={seconds === null}>
      {seconds !== null && waitsText(seconds)}
    </p>
  );
}
