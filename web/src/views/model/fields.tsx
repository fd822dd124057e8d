/** The parts of a recipe that are chosen most often beside what is trained. */

import { memo } from "../../components/memo";
import { valueAt, withValue } from "../../scheme/text";

const LOSSES = ["cross_entropy", "mse", "bce_with_logits", "causal_lm"];
const OPTIMIZERS = ["sgd", "adam", "adamw", "lion", "adafactor", "lamb"];

interface FieldsProps {
  readonly text: string;
  readonly onText: (text: string) => void;
}

export const Fields = memo(function Fields({ text, onText }: FieldsProps) {
  const loss = valueAt(text, ["loss"]);
  const optimizer = valueAt(text, ["optimizer", "name"]) ?? valueAt(text, ["optimizer"]);
  const change = (path: readonly string[], value: unknown) => onText(withValue(text, path, value));
  const named = valueAt(text, ["optimizer", "name"]) !== undefined;
  return (
    <div class="form-row">
      <Choice name="Loss" value={loss} of={LOSSES} onChoice={(value) => change(["loss"], value)} />
      <Choice
        name="Optimizer"
        value={optimizer}
        of={OPTIMIZERS}
        onChoice={(value) => (named ? change(["optimizer", "name"], value) : change(["optimizer"], { name: value }))}
      />
      <NumberField
        name="Learning rate"
        value={valueAt(text, ["optimizer", "lr"])}
        step="any"
        onNumber={(value) =>
          named
            ? change(["optimizer", "lr"], value)
            : change(["optimizer"], { name: typeof optimizer === "string" ? optimizer : "sgd", lr: value })
        }
      />
      <NumberField
        name="Batch"
        value={valueAt(text, ["batch"])}
        step="1"
        onNumber={(value) => change(["batch"], value)}
      />
    </div>
  );
});

interface ChoiceProps {
  readonly name: string;
  readonly value: unknown;
  readonly of: readonly string[];
  readonly onChoice: (value: string) => void;
}

/** What stands in the text but is none of these is shown as "as written". */
function Choice({ name, value, of, onChoice }: ChoiceProps) {
  const known = typeof value === "string" && of.includes(value);
  return (
    <label class="field">
      <span>{name}</span>
      <select
        value={known ? value : ""}
        onChange={(event) => event.currentTarget.value && onChoice(event.currentTarget.value)}
      >
        {!known && <option value="">as written</option>}
        {of.map((one) => (
          <option key={one}>{one}</option>
        ))}
      </select>
    </label>
  );
}

interface NumberProps {
  readonly name: string;
  readonly value: unknown;
  readonly step: string;
  readonly onNumber: (value: number) => void;
}

function NumberField({ name, value, step, onNumber }: NumberProps) {
  return (
    <label class="field">
      <span>{name}</span>
      <input
        type="number"
        min="0"
        step={step}
        value={typeof value === "number" ? value : ""}
        onChange={(event) => {
          const number = event.currentTarget.valueAsNumber;
          if (number > 0) onNumber(number);
        }}
      />
    </label>
  );
}
