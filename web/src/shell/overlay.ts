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

/** Whether a key writes into what has the focus: a field or an editor, also in a shadow root. */
export function isTyping(event: Event): boolean {
  return within(event, "input, textarea, [role=textbox]");
}

function within(event: Event, selector: string): boolean {
  const target = event.composedPath()[0];
  return target instanceof HTMLElement && (target.isContentEditable || target.closest(selector) !== null);
}

/** Whether letters belong to what has the focus, or to an open dialog. */
function ownsKeys(event: Event): boolean {
  return isTyping(event) || within(event, "select, [role=listbox]") || document.querySelector("dialog[open]") !== null;
}

function onKey(event: KeyboardEvent): void {
  if (!me.peek() || event.defaultPrevented || event.isComposing || event.altKey) return;
  if ((event.ctrlKey || event.metaKey) && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    overlay.value = overlay.peek() === null ? "everything" : null;
    return;
  }
  if (event.ctrlKey || event.metaKey || ownsKeys(event)) return;
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
