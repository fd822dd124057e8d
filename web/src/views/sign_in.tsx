/** Asks for an API key once; the server gives a session for it. */

import { useState } from "preact/hooks";
import { signIn } from "../api/account";
import type { Problem } from "../api/client";
import { Page, ProblemBox } from "../components/page";
import { asProblem } from "../data";
import { signInReason } from "../session";

export function SignInView() {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);

  const submit = (event: Event) => {
    event.preventDefault();
    const entered = key.trim();
    if (entered === "") return;
    setBusy(true);
    signIn(entered)
      .catch((error: unknown) => setProblem(asProblem(error)))
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
          The key is sent once and not kept: a cookie that no script can read keeps this browser signed in until you
          sign out or have been away for long. An admin of your workspace makes keys; the first one is made with{" "}
          <code>pock-server create-key --member NAME --role admin</code>.
        </p>
      </section>
    </Page>
  );
}
