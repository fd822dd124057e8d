/** The shell's dialogs, fetched once the first view stands, and the button that opens the palette. */

import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { MODIFIER, type Overlay, overlay } from "./overlay";

export function FindButton() {
  return (
    <button
      type="button"
      class="button find"
      aria-keyshortcuts="Control+K Meta+K"
      onClick={() => (overlay.value = "everything")}
    >
      <svg viewBox="0 0 16 16" width="15" height="15" aria-hidden="true">
        <path
          d="m10.6 10.6 3.4 3.4M11.8 7a4.8 4.8 0 1 1-9.6 0 4.8 4.8 0 0 1 9.6 0Z"
          fill="none"
          stroke="currentColor"
          stroke-width="1.6"
          stroke-linecap="round"
        />
      </svg>
      <span class="find-text">
        Find<span class="aside"> or do something</span>
      </span>
      <kbd aria-hidden="true">{MODIFIER} K</kbd>
    </button>
  );
}

const IDLE_MS = 2000;

type Dialogs = Readonly<Record<Overlay, ComponentType>>;

async function fetchDialogs(): Promise<Dialogs> {
  const [{ Palette }, { Keys }] = await Promise.all([import("./palette"), import("./keys")]);
  return {
    everything: () => <Palette key="everything" of="everything" />,
    commands: () => <Palette key="commands" of="commands" />,
    keys: Keys,
  };
}

export function Overlays() {
  const open = overlay.value;
  const [dialogs, setDialogs] = useState<{ readonly of: Dialogs } | null>(null);
  useEffect(() => {
    if (dialogs) return;
    // Once the view stands, so that the first letters typed after the key find the field.
    const arrive = () =>
      fetchDialogs().then(
        (of) => setDialogs({ of }),
        () => (overlay.value = null), // the server is away, as the banner says; the next time asks again
      );
    const timer = setTimeout(() => void arrive(), open === null ? IDLE_MS : 0);
    return () => clearTimeout(timer);
  }, [open, dialogs]);
  if (open === null || !dialogs) return null;
  const Dialog = dialogs.of[open];
  return <Dialog />;
}
