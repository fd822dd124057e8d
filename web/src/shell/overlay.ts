/** Which of the shell's dialogs is open, and the keys that open them or lead to a view. */

import { signal } from "@preact/signals";
import { go } from "../router";
import { me } from "../session";
import { SECTIONS } from "../views/table_of_views";

export type Overlay = "everything" | "commands" | "keys";

export const overlay = signal<Overlay | null>(null);

/** The letter after `g` that leads to a section. */
export function letterOf(section: string): string {
  return section.charAt(0).toLowerCase();
}

/** As the person's keyboard names it. */
export const MODIFIER = /Mac|iPhone|iPad/.test(navigator.userAgent) ? "⌘" : "Ctrl";

const LEAD_MS = 1500;
let ledAt = -Infinity;

/** Whether a key belongs to what has the focus: a field, an editor, a list with keys of its own. */
function isTyping(target: EventTarget | null): boolean {
  return (
    target instanceof HTMLElement &&
    (target.isContentEditable || target.closest("input, textarea, select, [role=textbox], [role=listbox]") !== null)
  );
}

function onKey(event: KeyboardEvent): void {
  if (!me.peek() || event.defaultPrevented || event.isComposing || event.altKey) return;
  if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    overlay.value = overlay.peek() === null ? "everything" : null;
    return;
  }
  if (event.ctrlKey || event.metaKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const section = SECTIONS.find(({ name }) => letterOf(name) === event.key);
  if (section && performance.now() - ledAt < LEAD_MS) go(section.href);
  else if (event.key === "?") overlay.value = "keys";
  else if (event.key === "/") overlay.value = "everything";
  else if (event.key === "c") overlay.value = "commands";
  else if (event.key === "g") {
    ledAt = performance.now();
    return;
  } else return;
  ledAt = -Infinity;
  event.preventDefault();
}

export function startKeys(): void {
  addEventListener("keydown", onKey);
}
