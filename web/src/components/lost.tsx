/** Says that the server does not answer, since when, and that what is shown is from then. */

import { lostSince } from "../api/connection";
import { At } from "./ago";

export function LostBanner() {
  const since = lostSince.value;
  return (
    <div class="lost" role="status">
      {since !== null && (
        <p>
          <strong>The server does not answer</strong> since <At time={new Date(since).toISOString()} clock />. What you
          see is from then; it is renewed as soon as the server is back.
        </p>
      )}
    </div>
  );
}
