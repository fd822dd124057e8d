/** The command palette: one field that finds views, actions, and what is there by name; or the commands of the view. */

import { useEffect, useId, useMemo, useRef, useState } from "preact/hooks";
import { commandItems, fixedItems, found, type Item, matching } from "./items";
import { overlay } from "./overlay";

const PAUSE_MS = 150;

export function Palette({ of }: { readonly of: "everything" | "commands" }) {
  const dialog = useModal();
  const list = useId();
  const [typed, setTyped] = useState("");
  const [chosen, setChosen] = useState(0);
  const known = useMemo(() => (of === "commands" ? commandItems() : fixedItems()), [of]);
  const there = useFound(of === "everything" ? typed : "");
  const items = [...matching(known, typed), ...there.items];
  const place = Math.min(chosen, items.length - 1);
  const choose = (item: Item | undefined) => {
    if (!item?.choose) return;
    overlay.value = null;
    item.choose();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) setChosen((place + step + items.length) % Math.max(1, items.length));
    else if (event.key === "Enter") choose(items[place]);
    else return;
    event.preventDefault();
  };
  useEffect(() => {
    dialog.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  });
  const label = of === "commands" ? "Copy a command of this view" : "Go to, do, or find by name or id";
  return (
    <dialog class="palette" ref={dialog} aria-label={label} onClose={close} onClick={closeOutside}>
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls={list}
        aria-activedescendant={items[place] ? `${list}-${place}` : undefined}
        aria-label={label}
        placeholder={label}
        autocomplete="off"
        spellcheck={false}
        value={typed}
        onInput={(event) => {
          setTyped(event.currentTarget.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul role="listbox" id={list} aria-label="Choices">
        {items.map((item, index) => (
          <li
            key={`${item.group} ${item.key}`}
            id={`${list}-${index}`}
            role="option"
            aria-selected={index === place}
            aria-disabled={item.choose === null}
            onClick={() => choose(item)}
            onPointerMove={() => index !== place && setChosen(index)}
          >
            <span class="palette-group">{items[index - 1]?.group === item.group ? "" : item.group}</span>
            <span class="palette-text">{item.text}</span>
            <span class="palette-hint">{item.hint}</span>
          </li>
        ))}
      </ul>
      <p class="palette-note" role="status">
        {items.length > 0
          ? `${items.length} choices. ↑ ↓ to choose, Enter to take it, Esc to close.`
          : there.asking
            ? "Looking …"
            : of === "commands" && typed === ""
              ? "This view has no commands."
              : "Nothing found. Names are searched as they are written, upper and lower case."}
      </p>
    </dialog>
  );
}

function close(): void {
  overlay.value = null;
}

function closeOutside(event: MouseEvent): void {
  if (event.target instanceof HTMLDialogElement) event.target.close();
}

/** A dialog that opens when it is shown; when it goes, what had the focus has it again. */
export function useModal() {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current?.showModal();
    return () => {
      if (before instanceof HTMLElement && before.isConnected) before.focus({ preventScroll: true });
    };
  }, []);
  return dialog;
}

/** What the server finds, once the person pauses. What was found before stays meanwhile. */
function useFound(typed: string): { readonly items: readonly Item[]; readonly asking: boolean } {
  const [state, setState] = useState<{ of: string; items: readonly Item[] }>({ of: "", items: [] });
  useEffect(() => {
    const abort = new AbortController();
    const timer = setTimeout(
      () => {
        void found(typed, abort.signal).then((items) => {
          if (!abort.signal.aborted) setState({ of: typed, items });
        });
      },
      typed === "" ? 0 : PAUSE_MS,
    );
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [typed]);
  return { items: state.items, asking: state.of !== typed };
}
