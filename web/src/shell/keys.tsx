/** Which keys there are. */

import { SECTIONS } from "../views/table_of_views";
import { letterOf, MODIFIER, overlay } from "./overlay";
import { useModal } from "./palette";

const KEYS: readonly (readonly [keys: readonly string[], what: string])[] = [
  [[MODIFIER, "K"], "Go anywhere, do something, or find a model, build, device or run"],
  [["/"], "The same"],
  [["c"], "Copy a command of this view: every number has one"],
  [["?"], "Show these keys"],
  [["Esc"], "Close what is open"],
];

export function Keys() {
  const dialog = useModal();
  return (
    <dialog class="keys" ref={dialog} aria-labelledby="keys-title" onClose={() => (overlay.value = null)}>
      <h2 id="keys-title">Keys</h2>
      <dl>
        {KEYS.map(([keys, what]) => (
          <KeyRow key={what} keys={keys} what={what} />
        ))}
        {SECTIONS.map(({ name }) => (
          <KeyRow key={name} keys={["g", letterOf(name)]} what={`Go to ${name}`} />
        ))}
      </dl>
      <p class="note">
        Tab leads through links, fields and buttons. Tables and charts that are wider than the screen take the focus,
        too: arrow keys move them. In a chart, + and − zoom and 0 shows all again. With the pointer, a drag zooms to
        what it spans, Ctrl and the wheel zoom, Shift and a drag move, and a double click shows all again.
      </p>
      <form method="dialog">
        <button class="button">Close</button>
      </form>
    </dialog>
  );
}

function KeyRow({ keys, what }: { readonly keys: readonly string[]; readonly what: string }) {
  return (
    <div>
      <dt>
        {keys.map((key) => (
          <kbd key={key}>{key}</kbd>
        ))}
      </dt>
      <dd>{what}</dd>
    </div>
  );
}
