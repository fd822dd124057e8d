/** What is done with the chosen devices: asked first, naming which, then told one by one. */

import { useEffect, useRef, useState } from "preact/hooks";
import { Progress } from "../../../components/badge";
import { Dialog } from "../../../components/dialog";
import { ProblemBox } from "../../../components/page";
import { WaitsNote } from "../../../components/waits";
import { asProblem } from "../../../data";
import { whyNot } from "../../../permission";
import type { Asked } from "../asked";
import { applyToEach, type Change, changeOne, gather, type Outcome } from "./work";
import { labelsOf } from "../labels";
import type { Chosen, Selection } from "../selection";
import { exact } from "../tools";

export type Kind = Change["kind"];

export const ACTIONS: Readonly<
  Record<Kind, { readonly button: string; readonly title: string; readonly past: string }>
> = {
  pool: { button: "Change pool", title: "Put into another pool", past: "in the new pool" },
  labels: { button: "Change labels", title: "Change the labels", past: "changed" },
  revoke: { button: "Revoke", title: "Revoke", past: "revoked" },
};

interface BulkProps {
  readonly asked: Asked;
  /** Devices that match. */
  readonly total: number;
  readonly selection: Selection;
  readonly onChanged: () => void;
}

const devicesText = (count: number) => `${exact(count)} ${count === 1 ? "device" : "devices"}`;

export function BulkActions({ asked, total, selection, onChanged }: BulkProps) {
  const [kind, setKind] = useState<Kind | null>(null);
  const count = selection.all ? total : selection.some.size;
  const why = whyNot("devices:admin");
  const none = count === 0;
  return (
    <div class="fleet-bulk" role="group" aria-label="With the chosen devices">
      <span class="faint">{none ? "None chosen" : `${exact(count)} chosen`}</span>
      {(Object.keys(ACTIONS) as Kind[]).map((one) => (
        <button
          key={one}
          type="button"
          class={one === "revoke" ? "button button-danger" : "button"}
          disabled={none || why !== null}
          title={why ?? (none ? "Choose devices in the table first." : "")}
          onClick={() => setKind(one)}
        >
          {ACTIONS[one].button} …
        </button>
      ))}
      <button type="button" class="button" disabled={none} onClick={selection.clear}>
        Choose none
      </button>
      {kind && (
        <BulkDialog
          kind={kind}
          devices={selection.all ? asked : [...selection.some.values()]}
          close={() => setKind(null)}
          onDone={({ failed }) => {
            if (failed.length === 0) selection.clear();
            onChanged();
          }}
        />
      )}
    </div>
  );
}

/** How far the change has come. */
interface Course {
  readonly done: number;
  readonly failed: readonly Outcome[];
}

interface DialogProps {
  readonly kind: Kind;
  /** Which; or what they match, so that they have to be found first. */
  readonly devices: readonly Chosen[] | Asked;
  readonly close: () => void;
  readonly onDone: (course: Course) => void;
}

export function BulkDialog({ kind, devices: wanted, close, onDone }: DialogProps) {
  const [devices, setDevices] = useState(isList(wanted) ? wanted : null);
  const [found, setFound] = useState(0);
  const [failure, setFailure] = useState<unknown>(null);
  const [course, setCourse] = useState<Course | null>(null);
  const [busy, setBusy] = useState(false);
  const [waits, setWaits] = useState<number | null>(null);
  const stop = useRef(new AbortController());
  useEffect(() => {
    const { signal } = stop.current;
    if (!isList(wanted))
      gather(wanted, signal, setFound).then(setDevices, (error) => signal.aborted || setFailure(error));
    return () => stop.current.abort();
  }, []);

  const apply = async (change: Change) => {
    if (!devices) return;
    let now: Course = { done: 0, failed: [] };
    setCourse(now);
    setBusy(true);
    await applyToEach(
      devices,
      (device) => changeOne(change, device),
      stop.current.signal,
      (outcome) => {
        now = outcome.error === null ? { ...now, done: now.done + 1 } : { ...now, failed: [...now.failed, outcome] };
        setCourse(now);
      },
      setWaits,
    );
    setBusy(false);
    onDone(now);
  };

  const { title, past } = ACTIONS[kind];
  const heading = devices ? `${title}: ${devicesText(devices.length)}` : title;
  return (
    <Dialog title={heading} wide onClose={() => !busy && close()}>
      {failure !== null ? (
        <ProblemBox problem={asProblem(failure)} />
      ) : !devices ? (
        <p role="status">Finding the devices: {exact(found)} so far …</p>
      ) : course ? (
        <Told
          all={devices.length}
          course={course}
          past={past}
          busy={busy}
          waits={waits}
          stop={() => stop.current.abort()}
        />
      ) : (
        <Form kind={kind} devices={devices} apply={(change) => void apply(change)} close={close} />
      )}
      {(failure !== null || (course && !busy)) && (
        <div class="actions">
          <button type="button" class="button button-primary" onClick={close}>
            Close
          </button>
        </div>
      )}
    </Dialog>
  );
}

function isList(wanted: readonly Chosen[] | Asked): wanted is readonly Chosen[] {
  return Array.isArray(wanted);
}

const MOST_NAMED = 12;

function Names({ devices }: { readonly devices: readonly Chosen[] }) {
  const more = devices.length - MOST_NAMED;
  return (
    <>
      <ul class="bulk-names">
        {devices.slice(0, MOST_NAMED).map(({ id, name }) => (
          <li key={id}>{name}</li>
        ))}
      </ul>
      {more > 0 && (
        <details class="bulk-more">
          <summary>and {exact(more)} more</summary>
          <p>
            {devices
              .slice(MOST_NAMED)
              .map(({ name }) => name)
              .join(", ")}
          </p>
        </details>
      )}
    </>
  );
}

interface FormProps {
  readonly kind: Kind;
  readonly devices: readonly Chosen[];
  readonly apply: (change: Change) => void;
  readonly close: () => void;
}

/** What is to be done, with the devices to which it is done. */
function Form({ kind, devices, apply, close }: FormProps) {
  const [pool, setPool] = useState("");
  const [set, setSet] = useState("");
  const [away, setAway] = useState("");
  const { labels, problem } = labelsOf(set);
  const gone = away
    .split(",")
    .map((key) => key.trim())
    .filter(Boolean);
  const change: Change =
    kind === "revoke"
      ? { kind }
      : kind === "pool"
        ? { kind, pool: pool.trim() }
        : { kind, labels: { ...Object.fromEntries(gone.map((key) => [key, null])), ...labels } };
  const empty = kind === "pool" ? pool.trim() === "" : kind === "labels" && set.trim() === "" && gone.length === 0;
  const text = (value: string, onText: (value: string) => void) => (
    <input type="text" value={value} maxLength={200} onInput={(event) => onText(event.currentTarget.value)} />
  );
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        apply(change);
      }}
    >
      {kind === "revoke" && (
        <p>
          They are sent away at once and for good: their open runs fail, and each needs a new token to come back as a
          new device.
        </p>
      )}
      <Names devices={devices} />
      {kind === "pool" && (
        <label class="field">
          <span>New pool</span>
          {text(pool, setPool)}
        </label>
      )}
      {kind === "labels" && (
        <>
          <label class="field">
            <span>Labels to give, such as room=attic, rack=3</span>
            {text(set, setSet)}
          </label>
          <label class="field">
            <span>Labels to take away, such as room, rack</span>
            {text(away, setAway)}
          </label>
        </>
      )}
      {problem !== null && <p class="enrol-wrong">{problem}</p>}
      <div class="actions">
        <button
          type="submit"
          class={kind === "revoke" ? "button button-danger" : "button button-primary"}
          disabled={empty || problem !== null || devices.length === 0}
        >
          {kind === "revoke" ? "Revoke" : "Change"} {devicesText(devices.length)}
        </button>
        <button type="button" class="button" onClick={close}>
          Keep as it is
        </button>
      </div>
    </form>
  );
}

interface ToldProps {
  readonly all: number;
  readonly course: Course;
  readonly past: string;
  readonly busy: boolean;
  readonly waits: number | null;
  readonly stop: () => void;
}

function Told({ all, course: { done, failed }, past, busy, waits, stop }: ToldProps) {
  const tried = done + failed.length;
  const left = all - tried;
  return (
    <>
      <Progress label="Devices" fraction={tried / all} text={`${exact(tried)} / ${exact(all)}`} />
      <p role="status">
        {!busy &&
          `${exact(done)} ${past}${failed.length > 0 ? `, ${exact(failed.length)} not` : ""}` +
            `${left > 0 ? `, ${exact(left)} left as they were` : ""}.`}
      </p>
      <WaitsNote seconds={waits} />
      {failed.length > 0 && (
        <ul class="bulk-failed" aria-label="Not changed">
          {failed.map(({ device, error }) => (
            <li key={device.id}>
              <strong>{device.name}</strong>: {asProblem(error).detail}
            </li>
          ))}
        </ul>
      )}
      {busy && (
        <div class="actions">
          <button type="button" class="button" onClick={stop}>
            Stop
          </button>
        </div>
      )}
    </>
  );
}
