/** The commands behind what the page shows: every number can be had again in a terminal. */

import { BASE } from "./api/client";

const HEADER = '-H "Authorization: Bearer $POCK_API_KEY"';

/** A shell word: quoted only where a shell would otherwise change it. */
export function quote(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** `curl` for a path under `/v1`; with `filter`, the one number out of the answer by `jq`. */
export function curl(path: string, filter?: string, base = BASE): string {
  const command = `curl -sS ${HEADER} ${quote(base + path)}`;
  return filter ? `${command} | jq ${quote(filter)}` : command;
}

/** `curl` that follows an event stream. */
export function curlEvents(path: string, base = BASE): string {
  return `curl -sSN ${HEADER} ${quote(base + path)}`;
}

/** `curl` that writes a blob to a file. */
export function curlBlob(digest: string, file: string, base = BASE): string {
  return `curl -sS ${HEADER} -o ${quote(file)} ${quote(`${base}/blobs/sha256/${digest}`)}`;
}

/** `curl` that deletes. */
export function curlDelete(path: string, base = BASE): string {
  return `curl -sS ${HEADER} -X DELETE ${quote(base + path)}`;
}

/** `curl` that posts JSON. */
export function curlPost(path: string, body: unknown, base = BASE): string {
  return `curl -sS ${HEADER} ${json(body)} ${quote(base + path)}`;
}

/** `curl` that puts JSON in place of what is there. */
export function curlPut(path: string, body: unknown, base = BASE): string {
  return `curl -sS ${HEADER} -X PUT ${json(body)} ${quote(base + path)}`;
}

function json(body: unknown): string {
  return `-H "Content-Type: application/json" -d ${quote(JSON.stringify(body))}`;
}
