/** Fields of forms, and what the server said of one. */

import type { ComponentChildren } from "preact";

export function FieldError({ text }: { readonly text: string | null }) {
  return text === null ? null : (
    <p class="field-error" role="alert">
      {text}
    </p>
  );
}

/** A field with what the server said of it. */
export function WithError({ text, children }: { readonly text: string | null; readonly children: ComponentChildren }) {
  return (
    <div>
      {children}
      <FieldError text={text} />
    </div>
  );
}

interface CountProps {
  readonly name: string;
  readonly value: number;
  readonly min: number;
  readonly max?: number;
  readonly onCount: (value: number) => void;
}

export function Count({ name, value, min, max, onCount }: CountProps) {
  return (
    <label class="field">
      <span>{name}</span>
      <input
        type="number"
        required
        min={min}
        max={max}
        value={value}
        onInput={(event) => {
          const number = event.currentTarget.valueAsNumber;
          if (Number.isInteger(number)) onCount(number);
        }}
      />
    </label>
  );
}
