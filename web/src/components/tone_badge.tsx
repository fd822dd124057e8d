/** How something stands, in a word with a mark; the colour only repeats what the word says. */

export type Tone = "good" | "active" | "waiting" | "bad" | "quiet";

export function Badge({ tone, text }: { readonly tone: Tone; readonly text: string }) {
  return (
    <span class={`badge badge-${tone}`}>
      <span class="badge-dot" aria-hidden="true" />
      {text}
    </span>
  );
}
