/** The line in which a filter is written, with what may follow in a list below it. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { ApiError } from "../../api";
import { useKey } from "../../keys";
import type { RunField } from "../../types";
import { completionOf } from "./run-query";

export function FilterLine({ value, fields, valuesOf, apply, error }: {
  value: string; fields: RunField[]; valuesOf: (field: string) => string[]; apply: (text: string) => void; error: ApiError | undefined;
}) {
  const [text, setText] = useState(value);
  const [caret, setCaret] = useState(value.length);
  const [isOpen, setOpen] = useState(false);
  const [chosen, setChosen] = useState(-1);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setText(value), [value]);
  useKey("/", "Filter", (event) => {
    event.preventDefault();
    input.current?.focus();
  });
  const completion = useMemo(() => completionOf(text, caret, fields, valuesOf), [text, caret, fields, valuesOf]);
  const items = isOpen ? completion.items : [];
  const edited = (element: HTMLInputElement) => {
    setText(element.value);
    setCaret(element.selectionStart ?? element.value.length);
    setOpen(true);
    setChosen(-1);
  };
  const complete = (item: string) => {
    const space = item.endsWith("(") || text[completion.to] === " " ? "" : " ";
    const next = text.slice(0, completion.from) + item + space + text.slice(completion.to);
    const at = completion.from + item.length + space.length;
    setText(next);
    setCaret(at);
    setChosen(-1);
    requestAnimationFrame(() => {
      input.current?.focus();
      input.current?.setSelectionRange(at, at);
    });
  };
  const pressed = (event: KeyboardEvent) => {
    if (event.key === "Escape" && items.length) setOpen(false);
    else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && completion.items.length) {
      setOpen(true);
      setChosen((before) => (before + (event.key === "ArrowDown" ? 1 : -1) + completion.items.length) % completion.items.length);
    } else if ((event.key === "Enter" || event.key === "Tab") && items[chosen] !== undefined) complete(items[chosen]!);
    else if (event.key === "Enter") {
      setOpen(false);
      apply(text.trim());
      return;
    } else return;
    event.preventDefault();
  };
  const place = /^where:(\d+)$/.exec(error?.where ?? "")?.[1];
  return (
    <div class="filter-line">
      <input ref={input} type="text" id="filter" role="combobox" aria-label="Filter runs" aria-expanded={items.length > 0} aria-controls="filter-items"
        aria-autocomplete="list" aria-activedescendant={items[chosen] === undefined ? undefined : `filter-item-${chosen}`} aria-invalid={place !== undefined}
        aria-describedby={place === undefined ? undefined : "filter-error"} autocomplete="off" spellcheck={false} value={text}
        placeholder="metric.val/loss < 0.5 and input.lr >= 0.01 and error ~ KeyError"
        onInput={(event) => edited(event.currentTarget)} onFocus={() => setOpen(true)} onClick={(event) => setCaret(event.currentTarget.selectionStart ?? 0)}
        onKeyUp={(event) => setCaret(event.currentTarget.selectionStart ?? 0)} onKeyDown={pressed}
        onBlur={() => {
          setOpen(false);
          if (text.trim() !== value) apply(text.trim());
        }} />
      <ul id="filter-items" role="listbox" aria-label="What may follow" hidden={!items.length}>
        {items.map((item, n) => (
          <li key={item} id={`filter-item-${n}`} role="option" aria-selected={n === chosen} class={n === chosen ? "chosen" : ""}
            onMouseDown={(event) => {
              event.preventDefault();
              complete(item);
            }}>{item}</li>
        ))}
      </ul>
      {error && place !== undefined && (
        <div id="filter-error" class="filter-error tone-bad" role="alert">
          <p>{error.what}</p>
          <p class="muted">{error.fix}</p>
        </div>
      )}
    </div>
  );
}
