/** Asks for missing builds, one after the other. It goes on, and what became of it is kept, whichever view is shown. */

import { signal } from "@preact/signals";
import { post } from "../../api/client";
import { patiently } from "../../api/patience";
import type { Build } from "../../api/types";
import { asProblem } from "../../data";
import { me } from "../../session";
import { type Missing, orderLike } from "./rows";

export interface Outcome {
  readonly of: Missing;
  readonly build?: Build;
  readonly refused?: string;
}

export interface Asking {
  readonly wanted: readonly Missing[];
  readonly outcomes: readonly Outcome[];
  readonly busy: boolean;
  /** Seconds for which the service wants no more; null while it takes them. */
  readonly waits: number | null;
  readonly stop: AbortController;
  /** Whose it is: the next person at this browser neither sees it nor goes on with it. */
  readonly session: string | null;
}

/** The latest of each model, by its id. */
const askings = signal<ReadonlyMap<string, Asking>>(new Map());

const session = () => me.value?.session_id ?? null;

export function askingOf(model: string): Asking | null {
  const found = askings.value.get(model);
  return found?.session === session() ? found : null;
}

function change(model: string, changes: Partial<Asking>): void {
  const known = askings.peek().get(model);
  if (known) askings.value = new Map(askings.peek()).set(model, { ...known, ...changes });
}

/** `onAsked` is called after each build that was asked for. */
export async function askFor(model: string, wanted: readonly Missing[], onAsked: () => void): Promise<void> {
  const stop = new AbortController();
  const begun: Asking = { wanted, outcomes: [], busy: true, waits: null, stop, session: session() };
  askings.value = new Map(askings.peek()).set(model, begun);
  const outcomes: Outcome[] = [];
  const ask = (one: Missing) => {
    if (session() !== begun.session) stop.abort();
    stop.signal.throwIfAborted();
    return post<Build>("/builds", orderLike(one.like, one.target));
  };
  for (const one of wanted) {
    try {
      const build = await patiently(
        () => ask(one),
        (waits) => change(model, { waits }),
        stop.signal,
      );
      outcomes.push({ of: one, build });
      onAsked();
    } catch (error) {
      if (stop.signal.aborted) break;
      outcomes.push({ of: one, refused: asProblem(error).detail });
    }
    change(model, { outcomes: [...outcomes] });
  }
  change(model, { busy: false });
}

/** Asks for no further ones. */
export function stopAsking(model: string): void {
  askings.peek().get(model)?.stop.abort();
}

export function forgetAsking(model: string): void {
  const rest = new Map(askings.peek());
  rest.delete(model);
  askings.value = rest;
}

/** Whether all were asked for: nothing is left that somebody has to know. */
export function isDone({ busy, wanted, outcomes }: Asking): boolean {
  return !busy && outcomes.length === wanted.length && outcomes.every(({ build }) => build !== undefined);
}

/** "2 asked for, 1 refused, 3 left out." */
export function askingText({ busy, wanted, outcomes }: Asking): string {
  const refused = outcomes.filter((one) => one.refused !== undefined).length;
  const left = wanted.length - outcomes.length;
  const parts = [
    busy ? `${outcomes.length - refused} of ${wanted.length} asked for` : `${outcomes.length - refused} asked for`,
    refused > 0 && `${refused} refused`,
    !busy && left > 0 && `${left} left out`,
  ];
  return `${parts.filter(Boolean).join(", ")}.`;
}
