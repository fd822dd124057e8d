/** A secret that the server tells once: it stays on the page until the person says that it is kept, and nowhere else. */

import { useState } from "preact/hooks";
import { copyText } from "./copy";

interface ShownOnceProps {
  /** What it is, such as "key". */
  readonly what: string;
  /** What it opens and where it belongs, in a sentence. */
  readonly advice: string;
  readonly secret: string;
  readonly onKept: () => void;
}

export function ShownOnce({ what, advice, secret, onKept }: ShownOnceProps) {
  const [said, setSaid] = useState("");
  const copy = () => {
    copyText(secret).then(
      () => setSaid("Copied."),
      () => setSaid("Could not copy; select the text."),
    );
  };
  return (
    <div class="secret" role="group" aria-label={`The new ${what}`}>
      <p>
        <strong>This is the only time that the {what} is shown.</strong> {advice}
      </p>
      <pre tabIndex={0} aria-label={`The ${what}`}>
        {secret}
      </pre>
      <div class="actions">
        <button type="button" class="button button-primary" onClick={copy}>
          Copy the {what}
        </button>
        <button type="button" class="button" onClick={onKept}>
          I have kept it
        </button>
        <span role="status">{said}</span>
      </div>
    </div>
  );
}
