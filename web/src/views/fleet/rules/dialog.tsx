/** The dialog that changes the rules of a device or a pool. What somebody else has changed meanwhile is shown first, and
 * overwritten only by who says so. */

import { useEffect, useState } from "preact/hooks";
import { type Problem, put, send } from "../../../api/client";
import { saidOf } from "../../../api/problem";
import { curlPut } from "../../../commands";
import { ConfirmButton } from "../../../components/confirm_button";
import { CopyButton } from "../../../components/copy";
import { Dialog } from "../../../components/dialog";
import { Facts } from "../../../components/figures";
import { Loading, ProblemBox } from "../../../components/page";
import { asProblem } from "../../../data";
import { RuleFields } from "./fields";
import { changePath, isOutdated, policyRows, type Seen, type Subject } from "./rules";
import { orderOf, wishesOf } from "./wishes";

interface DialogProps {
  readonly subject: Subject;
  /** The rules as the page shows them; null where it has not asked for them. */
  readonly seen: Seen | null;
  /** Told what was done, in a word. */
  readonly onDone: (done: "saved" | "taken away") => void;
  readonly onClose: () => void;
}

export function RulesDialog({ subject, seen: shown, onDone, onClose }: DialogProps) {
  const [seen, setSeen] = useState(shown);
  const [problem, setProblem] = useState<Problem | null>(null);
  useEffect(() => {
    if (shown === null) subject.look().then(setSeen, (error: unknown) => setProblem(asProblem(error)));
  }, []);
  return (
    <Dialog title={`Rules of ${subject.name}`} wide onClose={onClose}>
      {seen !== null ? (
        <Form subject={subject} first={seen} onDone={onDone} onClose={onClose} />
      ) : (
        <>
          {problem ? <ProblemBox problem={problem} /> : <Loading what="the rules" />}
          <div class="actions">
            <button type="button" class="button" onClick={onClose}>
              Close
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
}

interface FormProps extends Omit<DialogProps, "seen"> {
  readonly first: Seen;
}

function Form({ subject, first, onDone, onClose }: FormProps) {
  const [seen, setSeen] = useState(first);
  const [theirs, setTheirs] = useState<Seen | null>(null);
  const [wishes, setWishes] = useState(() => wishesOf(first.policy));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const order = orderOf(wishes);

  const refused = async (error: unknown) => {
    const why = asProblem(error);
    if (!isOutdated(why)) return setProblem(why);
    setProblem(null);
    await subject.look().then(setTheirs, (failure: unknown) => setProblem(asProblem(failure)));
  };
  const save = (instead: Seen) => {
    setBusy(true);
    put(changePath(subject, instead), order)
      .then(() => onDone("saved"), refused)
      .finally(() => setBusy(false));
  };
  const takeAway = () =>
    send(changePath(subject, seen), { method: "DELETE" }).catch(async (error: unknown) => {
      await refused(error);
      throw error;
    });
  const accept = (now: Seen) => {
    setSeen(now);
    setTheirs(null);
    setWishes(wishesOf(now.policy));
  };

  return (
    <form
      class="rules-form"
      onSubmit={(event) => {
        event.preventDefault();
        save(seen);
      }}
    >
      <p>{subject.note}</p>
      <RuleFields
        wishes={wishes}
        wish={(change) => setWishes({ ...wishes, ...change })}
        said={(field) => saidOf(problem, field)}
      />
      {Object.keys(order).length === 0 && <p class="note">No rule is set: these forbid nothing.</p>}
      {problem && !isAtField(problem) && <ProblemBox problem={problem} />}
      {theirs ? (
        <Theirs
          now={theirs}
          busy={busy}
          onTake={() => accept(theirs)}
          onOverwrite={() => save(theirs)}
          onClose={onClose}
        />
      ) : (
        <div class="actions">
          <button type="submit" class="button button-primary" disabled={busy}>
            {busy ? "Saving …" : "Save the rules"}
          </button>
          <button type="button" class="button" onClick={onClose}>
            Leave them
          </button>
          <ConfirmButton
            verb="No rules"
            doing="Taking them away"
            what={`for ${subject.name}`}
            warning="They are taken away. Devices then work whenever other rules allow it."
            act={takeAway}
            keep="Keep them"
            why={seen.policy === null ? "There are none to take away." : null}
            onDone={() => onDone("taken away")}
          />
          <CopyButton text={curlPut(subject.path, order)} of={`setting the rules of ${subject.name}`} />
        </div>
      )}
    </form>
  );
}

const FIELDS = ["max_temperature_celsius", "max_minutes_per_day", "max_joules_per_day", "hours"];

/** Whether a field shows it. */
function isAtField(problem: Problem): boolean {
  return saidOf(problem, ...FIELDS) !== null;
}

interface TheirsProps {
  readonly now: Seen;
  readonly busy: boolean;
  readonly onTake: () => void;
  readonly onOverwrite: () => void;
  readonly onClose: () => void;
}

/** What somebody else made of the rules while the dialog was open. */
function Theirs({ now, busy, onTake, onOverwrite, onClose }: TheirsProps) {
  const rows = now.policy === null ? [] : policyRows(now.policy);
  return (
    <div class="rules-theirs" role="alert">
      <p>
        <strong>Somebody has changed these rules since you opened them.</strong> Nothing of yours is saved.{" "}
        {now.policy === null ? "There are none any more." : rows.length === 0 && "They forbid nothing any more."}
        {rows.length > 0 && "They are now:"}
      </p>
      {rows.length > 0 && <Facts items={rows} />}
      <div class="actions">
        <button type="button" class="button button-primary" disabled={busy} onClick={onTake}>
          Go on from theirs
        </button>
        <button type="button" class="button button-danger" disabled={busy} onClick={onOverwrite}>
          Save mine in their place
        </button>
        <button type="button" class="button" onClick={onClose}>
          Close
        </button>
      </div>
    </div>
  );
}
