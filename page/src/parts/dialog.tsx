/** A dialog, and the question before something is done. */

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { Refused } from "./placeholders";

export function Dialog({ title, children, onClose, isWide = false }: {
  title: string; children: ComponentChildren; onClose: () => void; isWide?: boolean | "full";
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useLayoutEffect(() => dialog.current?.showModal(), []); // Before it is painted: the next key is its own.
  return (
    <dialog ref={dialog} class={isWide === "full" ? "full" : isWide ? "wide" : ""} aria-labelledby="dialog-title" onClose={onClose}
      onClick={(event) => event.target === dialog.current && onClose()}>
      <div class="dialog-content">
        <h2 id="dialog-title">{title}</h2>
        {children}
      </div>
    </dialog>
  );
}

/** Asks, acts, and shows what the server refused. */
export function Confirm({ title, text, verb, action, onClose, isGrave = false, isRefused = false }: {
  title: string; text: ComponentChildren; verb: string; action: () => Promise<unknown>; onClose: () => void;
  isGrave?: boolean;
  /** Whether it can't be done. */
  isRefused?: boolean;
}) {
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const confirmed = async () => {
    setBusy(true);
    try {
      await action();
      onClose();
    } catch (refusal) {
      setError(refusal instanceof ApiError ? refusal : new ApiError(0, String(refusal)));
      setBusy(false);
    }
  };
  return (
    <Dialog title={title} onClose={onClose}>
      <div>{text}</div>
      {error && <Refused error={error} />}
      <div class="buttons">
        <button type="button" onClick={onClose}>Back</button>
        <button type="button" class={isGrave ? "grave" : "main"} disabled={isBusy || isRefused} onClick={confirmed}>{verb}</button>
      </div>
    </Dialog>
  );
}
