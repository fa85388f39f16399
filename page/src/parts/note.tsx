/** A note in markdown: shown, and edited in its place. What another user has written meanwhile is shown beside one's own. */

import type { ComponentChildren } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { ApiError } from "../api";
import { Refused } from "./placeholders";

type ToHtml = (text: string) => string;
let loaded: ToHtml | undefined;

/** The text, as markdown once the code for that is here. */
export function Markdown({ text }: { text: string }) {
  const [toHtml, setToHtml] = useState(() => loaded);
  useEffect(() => {
    if (loaded) return;
    import("./markdown-html").then((code) => setToHtml(() => (loaded = code.htmlOf)), () => undefined);
  }, []);
  if (!toHtml) return <p class="note-text">{text}</p>;
  return <div class="markdown" dangerouslySetInnerHTML={{ __html: toHtml(text) }} />;
}

const MAX_LENGTH = 8000;

/** save: writes the text in place of `seen`, and throws an ApiError of status 409 where it is another one by now. read: what it says now. */
export function Note({ text, mayEdit, save, read, of }: {
  text: string; mayEdit: boolean; save: (text: string, seen: string) => Promise<unknown>; read: () => Promise<string>; of: string;
}) {
  const [isEditing, setEditing] = useState(false);
  const opener = useRef<HTMLButtonElement>(null);
  const close = () => {
    setEditing(false);
    requestAnimationFrame(() => opener.current?.focus());
  };
  if (isEditing) return <NoteEditor before={text} save={save} read={read} onClose={close} of={of} />;
  if (!text && !mayEdit) return null;
  return (
    <section class={`job-note${text ? "" : " empty"}`} aria-label={`Note of ${of}`}>
      <Folded text={text}>
        {mayEdit && <button ref={opener} type="button" class="quiet" onClick={() => setEditing(true)}>{text ? "Edit the note" : "Add a note"}</button>}
      </Folded>
    </section>
  );
}

/** A long note shows its beginning. */
function Folded({ text, children }: { text: string; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const [isLong, setLong] = useState(false);
  const [isOpen, setOpen] = useState(false);
  useEffect(() => {
    if (!box.current) return;
    const measure = () => box.current && setLong(box.current.scrollHeight > box.current.clientHeight + 4);
    measure();
    const observer = new ResizeObserver(measure);
    for (const child of box.current.children) observer.observe(child);
    return () => observer.disconnect();
  }, [text]);
  return (
    <>
      {text && <div ref={box} class={`note-box${isOpen ? " open" : ""}`}><Markdown text={text} /></div>}
      <div class="buttons">
        {text && (isLong || isOpen) && <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{isOpen ? "Show less" : "Show all of the note"}</button>}
        {children}
      </div>
    </>
  );
}

function NoteEditor({ before, save, read, onClose, of }: {
  before: string; save: (text: string, seen: string) => Promise<unknown>; read: () => Promise<string>; onClose: () => void; of: string;
}) {
  const [text, setText] = useState(before);
  const [seen, setSeen] = useState(before);
  const [other, setOther] = useState<string>();
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const area = useRef<HTMLTextAreaElement>(null);
  useLayoutEffect(() => area.current?.focus(), []);
  const store = async () => {
    setBusy(true);
    setError(undefined);
    try {
      await save(text, seen);
      onClose();
    } catch (refused) {
      const refusal = refused instanceof ApiError ? refused : new ApiError(0, String(refused));
      const now = refusal.status === 409 ? await read().catch(() => undefined) : undefined;
      if (now === undefined) setError(refusal);
      else {
        // Saved once more, it replaces what is shown here.
        setOther(now);
        setSeen(now);
      }
      setBusy(false);
    }
  };
  return (
    <form class="job-note editor" onSubmit={(event) => {
      event.preventDefault();
      void store();
    }}>
      {other !== undefined && (
        <div class="note tone-wait" role="alert">
          <p><strong>Another user has changed the note since you began. It says now:</strong></p>
          <pre class="note-text">{other || "nothing"}</pre>
          <div class="buttons">
            <button type="button" onClick={() => setText(other)}>Take this text</button>
            <button type="button" onClick={() => setText(`${other}\n\n${text}`)}>Put it before mine</button>
          </div>
        </div>
      )}
      <label>
        <span class="muted">Note of {of}, in markdown</span>
        <textarea ref={area} rows={6} maxLength={MAX_LENGTH} value={text} onInput={(event) => setText(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") onClose();
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) void store();
          }} />
      </label>
      {error && <Refused error={error} />}
      <div class="buttons">
        <button type="submit" class="main" disabled={isBusy}>{other === undefined ? "Save" : "Save mine"}</button>
        <button type="button" onClick={onClose}>Cancel</button>
      </div>
    </form>
  );
}
