/** The devices that are chosen, to do something with them: some by name, or all that match what is asked for. */

import { useCallback, useMemo, useState } from "preact/hooks";
import type { Device } from "../../api/types";

export type Chosen = Pick<Device, "id" | "name">;

export interface Selection {
  readonly all: boolean;
  readonly some: ReadonlyMap<string, Chosen>;
  readonly has: (id: string) => boolean;
  readonly toggle: (device: Chosen) => void;
  readonly takeAll: () => void;
  readonly clear: () => void;
}

const NONE: ReadonlyMap<string, Chosen> = new Map();

/** Chosen devices stay while one searches on; "all" means what is asked for by `list`, and ends with it. */
export function useSelection(list: string): Selection {
  const [some, setSome] = useState(NONE);
  const [allOf, setAllOf] = useState<string | null>(null);
  const toggle = useCallback(({ id, name }: Chosen) => {
    setAllOf(null);
    setSome((before) => {
      const after = new Map(before);
      if (!after.delete(id)) after.set(id, { id, name });
      return after;
    });
  }, []);
  const clear = useCallback(() => {
    setSome(NONE);
    setAllOf(null);
  }, []);
  const all = allOf === list;
  return useMemo(
    () => ({ all, some, has: (id) => some.has(id), toggle, takeAll: () => setAllOf(list), clear }),
    [all, some, toggle, clear, list],
  );
}
