/** The fields of a policy, each with what the server said of it. */

import { FieldError, WithError } from "../../../components/fields";
import { MOST_HOURS, type Span, USUAL_HOURS, type Wishes } from "./wishes";

interface FieldsProps {
  readonly wishes: Wishes;
  readonly wish: (change: Partial<Wishes>) => void;
  /** What the server said of a part of the order; null for nothing. */
  readonly said: (field: string) => string | null;
}

export function RuleFields({ wishes, wish, said }: FieldsProps) {
  return (
    <>
      <Tick name="Only while plugged in" on={wishes.charging} set={(charging) => wish({ charging })} />
      <Tick
        name="Not on networks that cost by the byte"
        on={wishes.unmetered}
        set={(unmetered) => wish({ unmetered })}
      />
      <div class="form-row rules-limits">
        <Limit
          name="Only below, °C"
          value={wishes.degrees}
          most={150}
          set={(degrees) => wish({ degrees })}
          error={said("max_temperature_celsius")}
        />
        <Limit
          name="Minutes of work a day, at most"
          value={wishes.minutes}
          most={1440}
          set={(minutes) => wish({ minutes })}
          error={said("max_minutes_per_day")}
        />
        <Limit
          name="Joules a day, at most"
          value={wishes.joules}
          most={1e12}
          set={(joules) => wish({ joules })}
          error={said("max_joules_per_day")}
        />
      </div>
      <Hours hours={wishes.hours} set={(hours) => wish({ hours })} said={said} />
      <fieldset class="choice">
        <legend>What a device cannot tell, such as the temperature:</legend>
        {[false, true].map((forbids) => (
          <label key={String(forbids)}>
            <input
              type="radio"
              name="unknown"
              checked={wishes.unknownForbids === forbids}
              onChange={() => wish({ unknownForbids: forbids })}
            />
            {forbids ? "forbids work" : "allows work"}
          </label>
        ))}
      </fieldset>
    </>
  );
}

interface TickProps {
  readonly name: string;
  readonly on: boolean;
  readonly set: (on: boolean) => void;
}

function Tick({ name, on, set }: TickProps) {
  return (
    <label class="check">
      <input type="checkbox" checked={on} onChange={(event) => set(event.currentTarget.checked)} />
      {name}
    </label>
  );
}

interface LimitProps {
  readonly name: string;
  readonly value: string;
  readonly most: number;
  readonly set: (value: string) => void;
  readonly error: string | null;
}

function Limit({ name, value, most, set, error }: LimitProps) {
  return (
    <WithError text={error}>
      <label class="field">
        <span>{name}</span>
        <input
          type="number"
          min={0}
          max={most}
          step="any"
          placeholder="no limit"
          value={value}
          onInput={(event) => set(event.currentTarget.value)}
        />
      </label>
    </WithError>
  );
}

interface HoursProps {
  readonly hours: readonly Span[];
  readonly set: (hours: readonly Span[]) => void;
  readonly said: FieldsProps["said"];
}

function Hours({ hours, set, said }: HoursProps) {
  const change = (index: number, part: Partial<Span>) =>
    set(hours.map((span, place) => (place === index ? { ...span, ...part } : span)));
  const ofAll = hours.some((_, index) => said(`hours.${index}`) !== null) ? null : said("hours");
  return (
    <fieldset class="rules-hours">
      <legend>Hours, by the device&apos;s own clock</legend>
      {hours.length === 0 && <p class="note">At any hour.</p>}
      {hours.map((span, index) => (
        <div key={index}>
          <div class="rules-span">
            <Time name={`From, hours ${index + 1}`} value={span.from} set={(from) => change(index, { from })} />
            <span>to</span>
            <Time name={`To, hours ${index + 1}`} value={span.until} set={(until) => change(index, { until })} />
            <button
              type="button"
              class="button button-quiet"
              aria-label={`Leave out hours ${index + 1}`}
              onClick={() => set(hours.filter((_, place) => place !== index))}
            >
              Leave out
            </button>
          </div>
          <FieldError text={said(`hours.${index}`)} />
        </div>
      ))}
      <button
        type="button"
        class="button"
        disabled={hours.length >= MOST_HOURS}
        title={hours.length >= MOST_HOURS ? `There can be ${MOST_HOURS} at most.` : ""}
        onClick={() => set([...hours, USUAL_HOURS])}
      >
        Add hours
      </button>
      <FieldError text={ofAll} />
    </fieldset>
  );
}

interface TimeProps {
  readonly name: string;
  readonly value: string;
  readonly set: (value: string) => void;
}

function Time({ name, value, set }: TimeProps) {
  return (
    <input type="time" required aria-label={name} value={value} onInput={(event) => set(event.currentTarget.value)} />
  );
}
