/** The frame of every view: title, way back, sections; and the states of what it loads. */

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Problem } from "../api/client";
import { useTitle } from "../hooks";
import { restoreScroll } from "../router";
import { waitsText } from "../api/patience";
import { CopyButton } from "./copy";

interface PageProps {
  readonly title: string;
  readonly kind?: string;
  readonly back?: { readonly href: string; readonly text: string };
  /** A line below the title: to what larger thing this belongs. */
  readonly below?: ComponentChildren;
  readonly aside?: ComponentChildren;
  readonly command?: string;
  readonly children: ComponentChildren;
}

export function Page({ title, kind, back, below, aside, command, children }: PageProps) {
  const heading = useRef<HTMLHeadingElement>(null);
  useTitle(title);
  useEffect(() => {
    // A new view replaces the old without a page load, so a screen reader has to be taken to its start.
    heading.current?.focus({ preventScroll: true });
    return restoreScroll();
  }, []);
  return (
    <main id="main">
      <header class="page-head">
        <div>
          {back && (
            <p class="back">
              <a href={back.href}>← {back.text}</a>
            </p>
          )}
          <h1 tabIndex={-1} ref={heading}>
            {kind && <span class="kind">{kind}</span>} {title}
            {command && <CopyButton text={command} of={title} />}
          </h1>
          {below && <p class="below">{below}</p>}
        </div>
        {aside && <div class="page-aside">{aside}</div>}
      </header>
      {children}
    </main>
  );
}

interface SectionProps {
  readonly title: string;
  readonly note?: ComponentChildren;
  readonly command?: string | undefined;
  readonly children: ComponentChildren;
}

export function Section({ title, note, command, children }: SectionProps) {
  return (
    <section class="card">
      <h2>
        {title}
        {command && <CopyButton text={command} of={title} />}
      </h2>
      {note && <p class="note">{note}</p>}
      {children}
    </section>
  );
}

interface LoadingProps {
  readonly what: string;
  /** Seconds for which the service wants to hear nothing more. */
  readonly waits?: number | null;
}

/** What comes, in words, above the form that most of it has. */
export function Loading({ what, waits = null }: LoadingProps) {
  return (
    <div class="loading">
      <p role="status">
        Loading {what} … {waits !== null && waitsText(waits)}
      </p>
      <div class="skeleton" aria-hidden="true">
        <span />
        <span />
        <span />
      </div>
    </div>
  );
}

export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
    </div>
  );
}

/** A failed request as the server explained it, with the way to try again. */
export function ProblemBox({ problem, retry }: { readonly problem: Problem; readonly retry?: () => void }) {
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{problem.title}</strong>
        {problem.failureCode !== null && <span class="code"> failure {problem.failureCode}</span>}
        {problem.failureCode === null && problem.status > 0 && <span class="code"> HTTP {problem.status}</span>}
      </p>
      <p>{problem.detail}</p>
      {retry && (
        <button type="button" class="button" onClick={retry}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Data, or why it is not there: loading first, then the problem; a stale value stays under a newer problem. */
export function Loaded<T>(props: {
  readonly of: {
    readonly data: T | null;
    readonly problem: Problem | null;
    readonly waits?: number | null;
    readonly reload: () => void;
  };
  readonly what: string;
  readonly children: (data: T) => ComponentChildren;
}) {
  const { data, problem, waits = null, reload } = props.of;
  return (
    <>
      {problem && <ProblemBox problem={problem} retry={reload} />}
      {data !== null ? props.children(data) : !problem && <Loading what={props.what} waits={waits} />}
    </>
  );
}

/** Whether all of these are there, or why not. What stands below others waits for them: nothing is pushed down while
 * somebody reads it. */
export function isSettled(...all: readonly { readonly data: unknown; readonly problem: Problem | null }[]): boolean {
  return all.every(({ data, problem }) => data !== null || problem !== null);
}

/** A table that may be wider than the screen: it scrolls on its own and can be reached by keyboard. */
export function TableFrame({ label, children }: { readonly label: string; readonly children: ComponentChildren }) {
  return (
    <div class="table-frame" role="region" aria-label={label} tabIndex={0}>
      {children}
    </div>
  );
}
