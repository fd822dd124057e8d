/** Work that need not be done at once: a piece in each task, so that the page draws and answers between them. */

const waiting: (() => void)[] = [];
/** Whether a task is due. Tasks begin by messages: timers are slow in tabs that nobody looks at. */
let due = false;
const tasks = new MessageChannel();
tasks.port1.onmessage = next;

function plan(): void {
  due = waiting.length > 0;
  if (due) tasks.port2.postMessage(null);
}

function next(): void {
  const work = waiting.shift();
  plan();
  work?.();
}

/** Does it in a task of its own, after what was asked for before; what it gives takes that back. */
export function inTurn(work: () => void): () => void {
  waiting.push(work);
  if (!due) plan();
  return () => {
    const at = waiting.indexOf(work);
    if (at !== -1) waiting.splice(at, 1);
  };
}

/** What follows goes on in a task of its own. */
export function ownTask(): Promise<void> {
  return new Promise((resolve) => {
    inTurn(resolve);
  });
}

/** Does a part in each of so many tasks; what it gives does at once what is left, or leaves it. */
export function inTurns(parts: Iterator<void>): { readonly finish: () => void; readonly stop: () => void } {
  let stop = () => {};
  const further = () => {
    stop = inTurn(() => {
      if (!parts.next().done) further();
    });
  };
  further();
  return {
    finish: () => {
      stop();
      while (!parts.next().done);
    },
    stop: () => stop(),
  };
}
