/** Search and order of lists whose entries have names and versions; both are in the address, and the server applies
 * them. */

import { useEffect, useState } from "preact/hooks";
import { address, setQuery } from "../router";

const SETTLED_MS = 250;
const ORDERS: readonly (readonly [string, string])[] = [
  ["", "Newest first"],
  ["name", "By name"],
  ["largest", "Largest first"],
];

/** What a person types means any name that holds it; with `*` or `?` it is the whole name. */
export function nameGlob(text: string): string {
  const words = text.trim();
  return words === "" || /[*?]/.test(words) ? words : `*${words}*`;
}

/** The path of a list with the search and order of the address. */
export function listPath(path: string): string {
  const query = address.value?.query ?? new URLSearchParams();
  const asked = new URLSearchParams();
  const name = nameGlob(query.get("q") ?? "");
  const sort = query.get("sort") ?? "";
  if (name) asked.set("name", name);
  if (ORDERS.some(([order]) => order === sort) && sort) asked.set("sort", sort);
  const text = asked.toString();
  return text ? `${path}?${text}` : path;
}

export function ListTools({ what }: { readonly what: string }) {
  const query = address.value?.query;
  const asked = query?.get("q") ?? "";
  const [text, setText] = useState(asked);
  useEffect(() => setText(asked), [asked]);
  useEffect(() => {
    if (text === (address.peek()?.query.get("q") ?? "")) return;
    const timer = setTimeout(() => setQuery({ q: text || null }), SETTLED_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="list-tools" role="search">
      <label class="field">
        <span>Search {what} by name</span>
        <input
          type="search"
          value={text}
          maxLength={190}
          placeholder="part of a name, or name-*"
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <label class="field field-short">
        <span>Order</span>
        <select
          value={query?.get("sort") ?? ""}
          onChange={(event) => setQuery({ sort: event.currentTarget.value || null })}
        >
          {ORDERS.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </select>
      </label>
    </div>
  );
}

export function Tags({ tags }: { readonly tags: readonly string[] }) {
  return (
    <span class="tags">
      {tags.map((tag) => (
        <span key={tag} class="tag">
          {tag}
        </span>
      ))}
    </span>
  );
}
