/** Keys of the keyboard: what each does on the screen that is open, and the list of them behind `?`. */

import { useEffect, useRef } from "preact/hooks";
import { Dialog } from "./parts/dialog";

/** Keys of the screen, by which the list behind `?` is made. */
export const KEYS = new Map<string, string>();

/** Calls `action` for a key pressed outside of fields. */
export function useKey(key: string, does: string, action: (event: KeyboardEvent) => void): void {
  const latest = useRef(action);
  latest.current = action;
  useEffect(() => {
    KEYS.set(key, does);
    const pressed = (event: KeyboardEvent) => {
      const target = event.target as HTMLElement;
      const isTyping = target.matches?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
      if (event.key !== key || event.ctrlKey || event.metaKey || event.altKey || isTyping || document.querySelector("dialog[open]")) return;
      latest.current(event);
    };
    addEventListener("keydown", pressed);
    return () => {
      KEYS.delete(key);
      removeEventListener("keydown", pressed);
    };
  }, [key, does]);
}

export function KeyList({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl class="keys">
        {[...KEYS].map(([key, does]) => (
          <div key={key}><dt><kbd>{key === " " ? "space" : key}</kbd></dt><dd>{does}</dd></div>
        ))}
        <div><dt><kbd>Esc</kbd></dt><dd>Close this list</dd></div>
      </dl>
      <div class="buttons"><button type="button" onClick={onClose}>Close</button></div>
    </Dialog>
  );
}
