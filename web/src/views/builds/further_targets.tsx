/** Targets for which nothing of the model was built yet: those that are ticked are columns, too, as the address says. */

import type { Target } from "../../api/types";
import type { Page as ListPage } from "../../api/client";
import { useResource } from "../../data";
import { Loaded } from "../../components/page";
import { address, setQuery } from "../../router";

/** The targets of the address, `?targets=NAME,NAME`. */
export function furtherTargets(): readonly string[] {
  return (address.value?.query.get("targets") ?? "").split(",").filter(Boolean).slice(0, 50);
}

export function FurtherTargets({ built }: { readonly built: readonly string[] }) {
  const targets = useResource<ListPage<Target>>("/targets");
  const ticked = furtherTargets();
  const toggle = (name: string) => {
    const next = ticked.includes(name) ? ticked.filter((one) => one !== name) : [...ticked, name];
    setQuery({ targets: next.join(",") });
  };
  return (
    <Loaded of={targets} what="targets">
      {({ items }) => {
        const names = [...new Set([...items.map(({ name }) => name), ...ticked])].filter(
          (name) => !built.includes(name),
        );
        if (names.length === 0) return null;
        return (
          <fieldset class="targets">
            <legend>Further targets</legend>
            {names.map((name) => (
              <label key={name} class="check">
                <input type="checkbox" checked={ticked.includes(name)} onChange={() => toggle(name)} />
                {name}
              </label>
            ))}
          </fieldset>
        );
      }}
    </Loaded>
  );
}
