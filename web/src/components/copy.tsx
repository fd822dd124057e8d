/** Copying the command behind a number. The buttons are no tab stops: every number has one. By keyboard, `c` lists all
 * commands of the view (`shell/palette.tsx`). */

import { useEffect, useState } from "preact/hooks";

/** Writes to the clipboard; where the page is not on https or loopback, by the older way that still works there. */
export async function copyText(text: string): Promise<void> {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  document.body.append(area);
  area.select();
  const copied = document.execCommand("copy");
  area.remove();
  if (!copied) throw new Error("The browser refused to copy.");
}

interface CopyProps {
  /** What is copied. */
  readonly text: string;
  /** What it is the command or value of, for the button's name. */
  readonly of: string;
  readonly what?: "command" | "value";
}

export function CopyButton({ text, of, what = "command" }: CopyProps) {
  const [state, setState] = useState<"idle" | "copied" | "refused">("idle");
  useEffect(() => {
    if (state === "idle") return;
    const timer = setTimeout(() => setState("idle"), 1800);
    return () => clearTimeout(timer);
  }, [state]);
  const copy = () => {
    copyText(text).then(
      () => setState("copied"),
      () => setState("refused"),
    );
  };
  return (
    <span class="copy">
      <button
        type="button"
        class="copy-button"
        tabIndex={-1}
        onClick={copy}
        title={text}
        aria-label={`Copy the ${what} of ${of}`}
      >
        <svg viewBox="0 0 16 16" width="14" height="14" aria-hidden="true">
          {state === "copied" ? (
            <path d="M3 8.5 6.5 12 13 4.5" fill="none" stroke="currentColor" stroke-width="1.8" />
          ) : (
            <path
              d="M5.5 5.5v-3h8v8h-3m-8-5h8v8h-8z"
              fill="none"
              stroke="currentColor"
              stroke-width="1.3"
              stroke-linejoin="round"
            />
          )}
        </svg>
      </button>
      <span class="copy-note" role="status">
        {state === "copied" ? "Copied" : state === "refused" ? "Could not copy" : ""}
      </span>
    </span>
  );
}

/** A command shown in full, with its copy button. */
export function Command({ text, of }: { readonly text: string; readonly of: string }) {
  return (
    <div class="command">
      <pre tabIndex={0} aria-label={`Command: ${of}`}>
        {text}
      </pre>
      <CopyButton text={text} of={of} />
    </div>
  );
}
