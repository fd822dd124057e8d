/** A dialog over the page, open as long as it is drawn. Escape closes it. The focus goes back to where it was. */

import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

interface DialogProps {
  readonly title: string;
  readonly wide?: boolean;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
}

export function Dialog({ title, wide = false, onClose, children }: DialogProps) {
  const dialog = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const element = dialog.current;
    const before = document.activeElement;
    element?.showModal();
    return () => {
      element?.close();
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  // A browser closes it at the second Escape, whatever is said to the first: who still draws it wants it open.
  const again = () => {
    if (!dialog.current?.isConnected) return;
    onClose();
    setTimeout(() => {
      if (dialog.current?.open === false) dialog.current.showModal();
    });
  };
  return (
    <dialog
      ref={dialog}
      class={wide ? "ask ask-wide" : "ask"}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
      onClose={again}
    >
      <h2 id={id}>{title}</h2>
      {children}
    </dialog>
  );
}
