/** The dialog in which columns are chosen among the fields that the runs have. */

import { useState } from "preact/hooks";
import { counted, whole } from "../../format";
import { Dialog } from "../../parts/dialog";
import type { RunField } from "../../types";

const KINDS: [string, string][] = [["metric.", "Metrics"], ["input.", "Inputs"], ["param.", "Parameters"], ["tag.", "Tags"], ["", "Job"]];
const MAX_LISTED = 200;
/** Fields of a kind that are listed without a search. */

const kindOf = (field: string): string => KINDS.find(([prefix]) => field.startsWith(prefix))![0];

export function ColumnPicker({ fields, columns, choose, onClose }: {
  fields: RunField[]; columns: string[]; choose: (columns: string[]) => void; onClose: () => void;
}) {
  const [text, setText] = useState("");
  const isFound = (field: string) => field.toLowerCase().includes(text.trim().toLowerCase());
  const toggle = (field: string) => choose(columns.includes(field) ? columns.filter((one) => one !== field) : [...columns, field]);
  const all = [...fields, ...columns.filter((one) => !/^(min|max)\(/.test(one) && !fields.some(({ field }) => field === one)).map((field) => ({ field, unit: "any", runs: 0, values: 0, is_default: false, is_primary: false, goal: null }))];
  return (
    <Dialog title="Columns" onClose={onClose}>
      <input type="search" aria-label="Search columns" placeholder="Search" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      <div class="picker" tabIndex={0} role="region" aria-label="Fields">
        {KINDS.map(([prefix, title]) => {
          const own = all.filter(({ field }) => kindOf(field) === prefix && isFound(field));
          if (!own.length) return null;
          return (
            <fieldset key={title}>
              <legend>{title}</legend>
              {own.slice(0, MAX_LISTED).map(({ field, runs }) => (
                <div key={field} class="picked-field">
                  <label class="check"><input type="checkbox" checked={columns.includes(field)} onChange={() => toggle(field)} /> {field.slice(prefix.length)}</label>
                  {prefix === "metric." && ["min", "max"].map((point) => (
                    <button type="button" key={point} class="chip" aria-pressed={columns.includes(`${point}(${field})`)} aria-label={`${point} of ${field}`}
                      onClick={() => toggle(`${point}(${field})`)}>{point}</button>
                  ))}
                  <span class="muted number">{counted(runs, "run")}</span>
                </div>
              ))}
              {own.length > MAX_LISTED && <p class="muted">{whole(own.length - MAX_LISTED)} more: search for them</p>}
            </fieldset>
          );
        })}
      </div>
      <div class="buttons">
        <button type="button" class="quiet" onClick={() => choose([])}>The usual ones</button>
        <button type="button" class="main" onClick={onClose}>Close</button>
      </div>
    </Dialog>
  );
}
