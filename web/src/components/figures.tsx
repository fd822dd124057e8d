/** Key figures as a definition list; each with the command that gives the same number. */

import type { ComponentChildren } from "preact";
import { CopyButton } from "./copy";

export interface Figure {
  readonly label: string;
  readonly value: ComponentChildren;
  readonly hint?: ComponentChildren;
  readonly command?: string;
}

export function Figures({ items }: { readonly items: readonly Figure[] }) {
  return (
    <dl class="figures">
      {items.map((item) => (
        <div class="figure" key={item.label}>
          <dt>
            {item.label}
            {item.command && <CopyButton text={item.command} of={item.label} />}
          </dt>
          <dd>
            <span class="figure-value">{item.value}</span>
            {item.hint && <span class="figure-hint">{item.hint}</span>}
          </dd>
        </div>
      ))}
    </dl>
  );
}

/** Facts in two columns, for what is read rather than compared. */
export function Facts({ items }: { readonly items: readonly (readonly [string, ComponentChildren])[] }) {
  return (
    <dl class="facts">
      {items.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
