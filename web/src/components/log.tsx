/** Logs of builds and runs. */

import { useEffect, useRef, useState } from "preact/hooks";
import { getText, type Problem } from "../api/client";
import { asProblem } from "../data";

/** The stored log, once there is a path; again for each `version`. */
export function useLog(path: string | null, version = 0): { text: string | null; problem: Problem | null } {
  const [log, setLog] = useState<{ text: string | null; problem: Problem | null }>({ text: null, problem: null });
  useEffect(() => {
    if (path === null) return;
    const abort = new AbortController();
    getText(path, abort.signal).then(
      (text) => setLog({ text, problem: null }),
      (error: unknown) => {
        if (!abort.signal.aborted) setLog({ text: null, problem: asProblem(error) });
      },
    );
    return () => abort.abort();
  }, [path, version]);
  return log;
}

/** The log; while it grows, the end stays in view unless the person has scrolled up. */
export function LogText({ text, live }: { readonly text: string; readonly live: boolean }) {
  const box = useRef<HTMLPreElement>(null);
  const atEnd = useRef(true);
  useEffect(() => {
    const element = box.current;
    if (element && live && atEnd.current) element.scrollTop = element.scrollHeight;
  }, [text, live]);
  const follow = () => {
    const element = box.current;
    if (element) atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 8;
  };
  if (text === "") return <p class="note">{live ? "Nothing written yet." : "Nothing was written."}</p>;
  return (
    <pre class="block log" ref={box} tabIndex={0} aria-label="Log" onScroll={follow}>
      {text}
    </pre>
  );
}
