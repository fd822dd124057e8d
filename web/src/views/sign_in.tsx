/** Asks for the API key once; it is tried on the server before it is kept. */

import { useState } from "preact/hooks";
import { type Problem, tryKey } from "../api/client";
import { Page, ProblemBox } from "../components/page";
import { asProblem } from "../hooks";
import { signIn, signInReason } from "../session";

export function SignInView() {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = (event: Event) => {
    event.preventDefault();
    const entered = key.trim();
    if (entered === "") return;
    setBusy(true);
    tryKey(entered)
      .then(
        () => signIn(entered),
        (error: unknown) => setProblem(asProblem(error)),
      )
      .finally(() => setBusy(false));
  };

  return (
    <Page title="Sign in">
      <section class="card narrow">
        {signInReason.value !== null && problem === null && (
          <p class="note" role="status">
            You have been signed out: {signInReason.value}
          </p>
        )}
        <form onSubmit={submit}>
          <label class="field">
            <span>API key</span>
            <input
              type="password"
              name="key"
              autocomplete="current-password"
              spellcheck={false}
              placeholder="pk_…"
              required
              value={key}
              onInput={(event) => setKey(event.currentTarget.value)}
            />
          </label>
          {problem && <ProblemBox problem={problem} />}
          <button type="submit" class="button button-primary" disabled={busy}>
            {busy ? "Checking …" : "Sign in"}
          </button>
        </form>
        <p class="note">
          The key stays in this tab until it is closed. It needs the scope <code>read</code>; requesting builds and runs
          needs <code>builds:write</code> and <code>runs:write</code>. Who runs the service makes a key with{" "}
          <code>pock-server create-key</code>.
        </p>
      </section>
    </Page>
  );
}
