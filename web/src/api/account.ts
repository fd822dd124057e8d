/** Signing in and out. */

import { me, signedIn, signedOut, takeKeyFromAddress } from "../session";
import { get, Problem, send } from "./client";
import type { Me } from "./types";

/** What the server answers to a request without any credential; the others say why an earlier session has ended. */
const NO_CREDENTIAL = 1001;

/** Opens a session with a key, which is not kept. Throws the server's problem when the key opens nothing. */
export async function signIn(key: string): Promise<void> {
  await send("/session", { method: "POST" }, key);
  signedIn(await get<Me>("/me"));
}

/** Ends this browser's session, also in its other tabs. Throws when the server could not be told. */
export async function signOut(): Promise<void> {
  try {
    await send("/session", { method: "DELETE" });
  } catch (error) {
    if (!(error instanceof Problem) || error.status !== 401) throw error;
  }
  signedOut(null);
}

/** Finds out who is signed in: by the key in the address, or by the cookie of an earlier visit. */
export async function restore(): Promise<void> {
  const key = takeKeyFromAddress();
  try {
    if (key !== null) await signIn(key);
    else me.value = await get<Me>("/me");
  } catch (error) {
    if (!(error instanceof Problem) || error.status < 400 || error.status >= 500) throw error;
    signedOut(key === null && error.failureCode === NO_CREDENTIAL ? null : error.detail);
  }
}
