/** What the server said of a request that it refused. Knows nothing of the page: the streams' worker uses it, too. */

/** One part of a request that was wrong; `line` of a recipe's text, from 1. */
export interface FieldError {
  readonly where: string;
  readonly message: string;
  readonly line?: number | null;
}

/** RFC 9457 problem, or what stands in for one when the answer was something else. */
export class Problem extends Error {
  constructor(
    readonly title: string,
    readonly detail: string,
    readonly status: number,
    readonly failureCode: number | null,
    readonly retryable: boolean,
    readonly errors: readonly FieldError[] = [],
    /** Seconds after which the service wants to be asked again; null where it does not say. */
    readonly retryAfter: number | null = null,
  ) {
    super(detail);
  }
}

/** Reads a failed response; a body that is not problem+json still gives its status and text. */
export async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  let body: Record<string, unknown> = {};
  try {
    const parsed: unknown = JSON.parse(text);
    if (typeof parsed === "object" && parsed !== null) body = parsed as Record<string, unknown>;
  } catch {
    // Not JSON: a proxy's page, for instance. Its first line says more than nothing.
  }
  const string = (value: unknown, otherwise: string) => (typeof value === "string" && value ? value : otherwise);
  return new Problem(
    string(body.title, response.statusText || "Request failed"),
    string(body.detail, text.split("\n")[0]?.slice(0, 300) || `The server answered ${response.status}.`),
    response.status,
    typeof body.failure_code === "number" ? body.failure_code : null,
    body.retryable === true,
    Array.isArray(body.errors) ? (body.errors as FieldError[]) : [],
    secondsIn(response.headers.get("Retry-After")),
  );
}

/** Of a header that has a number of seconds; a date, which the service never sends, counts as nothing. */
function secondsIn(header: string | null): number | null {
  return header !== null && /^\d{1,9}$/.test(header) ? Number(header) : null;
}

/** What the service said of one field: "body.on: no device …" or the first of its errors that is about it; null: nothing. */
export function saidOf(problem: Problem | null, ...fields: readonly string[]): string | null {
  if (!problem) return null;
  const told = problem.errors.length > 0 ? problem.errors : [toldOnce(problem.detail)];
  const mine = told.find(({ where }) => fields.some((field) => `${where}.`.startsWith(`body.${field}.`)));
  return mine?.message.replace(/^Value error, /, "") ?? null;
}

function toldOnce(detail: string): { where: string; message: string } {
  const [, where = "", message = detail] = /^(body(?:\.\w+)+): (.*)$/s.exec(detail) ?? [];
  return { where, message };
}
