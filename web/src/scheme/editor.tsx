/** A text area for YAML with colours, line numbers and marks at the lines that are wrong. */

import type { EditorView } from "@codemirror/view";
import type { tags as Tags } from "@lezer/highlight";
import { useEffect, useRef, useState } from "preact/hooks";
import { useFetched, useNear } from "../hooks";
import { inTurns } from "../turns";

export interface Mark {
  /** From 1. */
  readonly line: number;
  readonly message: string;
}

interface EditorProps {
  readonly text: string;
  /** Changes when the text was changed elsewhere; what is typed here is not written back. */
  readonly revision: number;
  readonly onText: (text: string) => void;
  readonly marks: readonly Mark[];
  readonly label: string;
}

/** The text alone until somebody comes near and the editor is there, which is the largest part of the page's code. */
export function YamlEditor(props: EditorProps) {
  const place = useRef<HTMLPreElement>(null);
  const near = useNear(place);
  const [entered, setEntered] = useState(false);
  const library = useFetched(near || entered ? "editor" : null, fetchLibrary);
  if (library) return <Editor {...props} library={library} entered={entered} />;
  return (
    <pre
      ref={place}
      class="yaml-editor yaml-text"
      role="textbox"
      aria-readonly
      aria-label={props.label}
      tabIndex={0}
      onFocus={() => setEntered(true)}
    >
      {props.text}
    </pre>
  );
}

interface MountedProps extends EditorProps {
  readonly library: Library;
  /** Whether the keyboard is in it already. */
  readonly entered: boolean;
}

function Editor({ text, revision, onText, marks, label, library, entered }: MountedProps) {
  const frame = useRef<HTMLDivElement>(null);
  const editor = useRef<Mounted | null>(null);
  const [shown, setShown] = useState(false);
  const latest = useRef({ text, onText, marks });
  latest.current = { text, onText, marks };

  useEffect(() => {
    const place = frame.current;
    if (!place) return;
    let mounted: Mounted | null = null;
    const mounting = inTurns(
      (function* () {
        mounted = mount(library, place, label, latest.current.text, (changed) => latest.current.onText(changed));
        editor.current = mounted;
        setShown(true);
        if (entered) mounted.view.focus();
        yield;
        mounted.understand();
        mounted.mark(latest.current.marks);
      })(),
    );
    if (entered) mounting.finish();
    return () => {
      mounting.stop();
      mounted?.view.destroy();
      editor.current = null;
    };
  }, [library, label]);

  useEffect(() => editor.current?.show(latest.current.text), [revision]);
  useEffect(() => editor.current?.mark(marks), [marks]);

  return (
    <div ref={frame} class="yaml-editor">
      {!shown && <pre class="yaml-text">{text}</pre>}
    </div>
  );
}

const THEME = {
  "&": { maxHeight: "22rem", backgroundColor: "var(--page)", color: "var(--ink)", fontSize: "0.9rem" },
  ".cm-content": { caretColor: "var(--ink)", fontFamily: "var(--mono)" },
  ".cm-scroller": { overflow: "auto" },
  ".cm-gutters": { border: "0", backgroundColor: "var(--page)", color: "var(--ink-2)" },
  "&.cm-focused": { outline: "2px solid var(--accent)" },
  ".cm-tooltip": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line-strong)" },
};

type Library = Awaited<ReturnType<typeof fetchLibrary>>;

interface Mounted {
  readonly view: EditorView;
  /** Reads the text as YAML from now on. */
  readonly understand: () => void;
  readonly show: (text: string) => void;
  readonly mark: (marks: readonly Mark[]) => void;
}

/** Types over what is selected. Left to do it, browsers write inline styles as they merge lines; the policy forbids them. */
function replaceSelection(event: InputEvent, view: EditorView): boolean {
  if (event.inputType !== "insertText" || event.data === null || view.state.selection.main.empty) return false;
  event.preventDefault();
  view.dispatch(view.state.replaceSelection(event.data), { userEvent: "input.type" });
  return true;
}

/** Keys, values and comments in the page's colours, which have enough contrast in both themes. */
const colours = (tags: typeof Tags) => [
  { tag: [tags.propertyName, tags.definition(tags.propertyName)], color: "var(--accent)" },
  { tag: [tags.string, tags.number, tags.bool], color: "var(--active)" },
  { tag: tags.comment, color: "var(--ink-2)", fontStyle: "italic" },
];

/** CodeMirror is large, so it is fetched when the first editor is shown. */
async function fetchLibrary() {
  const [view, { EditorState, StateEffect }, yaml, lint, commands, language, { tags }] = await Promise.all([
    import("@codemirror/view"),
    import("@codemirror/state"),
    import("@codemirror/lang-yaml"),
    import("@codemirror/lint"),
    import("@codemirror/commands"),
    import("@codemirror/language"),
    import("@lezer/highlight"),
  ]);
  return { view, EditorState, StateEffect, yaml, lint, commands, language, tags };
}

function mount(
  {
    view: { EditorView: View, keymap, lineNumbers },
    EditorState,
    StateEffect,
    yaml,
    lint,
    commands,
    language,
    tags,
  }: Library,
  frame: HTMLDivElement,
  label: string,
  text: string,
  onText: (text: string) => void,
): Mounted {
  // In a shadow tree CodeMirror adopts its style sheets; in the page it would write inline ones, which the policy forbids.
  const root = frame.shadowRoot ?? frame.attachShadow({ mode: "open" });
  const view = new View({
    parent: root,
    root,
    state: EditorState.create({
      doc: text,
      extensions: [
        lineNumbers(),
        commands.history(),
        // Tab leaves the editor, as it leaves every other field.
        keymap.of([...commands.defaultKeymap, ...commands.historyKeymap]),
        lint.lintGutter(),
        View.theme(THEME),
        View.lineWrapping,
        View.contentAttributes.of({ "aria-label": label }),
        View.domEventHandlers({ beforeinput: replaceSelection }),
        View.updateListener.of((update) => {
          const typed = update.transactions.some(
            (one) =>
              one.isUserEvent("input") ||
              one.isUserEvent("delete") ||
              one.isUserEvent("undo") ||
              one.isUserEvent("redo"),
          );
          if (update.docChanged && typed) onText(update.state.doc.toString());
        }),
      ],
    }),
  });
  let marked = false;
  const reading = [yaml.yaml(), language.syntaxHighlighting(language.HighlightStyle.define(colours(tags)))];
  return {
    view,
    understand: () => view.dispatch({ effects: StateEffect.appendConfig.of(reading) }),
    show: (wanted) => {
      const shown = view.state.doc.toString();
      if (shown !== wanted) view.dispatch({ changes: { from: 0, to: shown.length, insert: wanted } });
    },
    mark: (marks) => {
      if (marks.length === 0 && !marked) return;
      marked = marks.length > 0;
      const { doc } = view.state;
      const diagnostics = marks.map(({ line, message }) => {
        const { from, to } = doc.line(Math.min(Math.max(1, line), doc.lines));
        return { from, to, severity: "error" as const, message };
      });
      view.dispatch(lint.setDiagnostics(view.state, diagnostics));
    },
  };
}
