/** The views that are saved for an experiment: the same for everyone, each with an address. */

import { useState } from "preact/hooks";
import { act, ApiError, segment } from "../../api";
import { useMayAct } from "../../hooks";
import { Dialog } from "../../parts/dialog";
import { Refused } from "../../parts/placeholders";
import { setQuery } from "../../router";
import type { RunView } from "../../types";
import { pathOf, type Choice } from "./run-query";

const NOTHING = { columns: "", where: "", sort: "", group: "" };

export function Views({ experiment, views, chosen, choice, reload }: {
  experiment: string; views: RunView[]; chosen: string; choice: Choice; reload: () => void;
}) {
  const [isSaving, setSaving] = useState(false);
  const [error, setError] = useState<ApiError>();
  const mayAct = useMayAct();
  const path = (name: string) => `${pathOf(experiment, "views")}/${segment(name)}`;
  const remove = () => act("DELETE", path(chosen)).then(() => setQuery({ view: "" }), setError).then(reload);
  return (
    <>
      {(views.length > 0 || chosen) && (
        <label class="select">
          <span class="hidden">View</span>
          <select value={chosen} onChange={(event) => setQuery({ ...NOTHING, view: event.currentTarget.value }, false)}>
            <option value="">no view</option>
            {views.map((view) => <option key={view.name} value={view.name}>{`${view.name}${view.person ? ` · ${view.person}` : ""}`}</option>)}
          </select>
        </label>
      )}
      {mayAct && <button type="button" onClick={() => setSaving(true)}>Save view</button>}
      {mayAct && chosen && views.some((view) => view.name === chosen) && <button type="button" class="quiet" onClick={remove}>Delete view</button>}
      {error && <Refused error={error} />}
      {isSaving && <SaveView name={chosen} onClose={() => setSaving(false)} save={async (name) => {
        await act("PUT", path(name), {}, { columns: choice.columns, where: choice.where, sort: choice.sort, group_by: choice.group });
        reload();
        setQuery({ ...NOTHING, view: name }, false);
      }} />}
    </>
  );
}

function SaveView({ name: before, save, onClose }: { name: string; save: (name: string) => Promise<void>; onClose: () => void }) {
  const [name, setName] = useState(before);
  const [error, setError] = useState<ApiError>();
  return (
    <Dialog title="Save view" onClose={onClose}>
      <form onSubmit={(event) => {
        event.preventDefault();
        save(name.trim()).then(onClose, (refused) => setError(refused instanceof ApiError ? refused : new ApiError(0, String(refused))));
      }}>
        <p>Columns, filter, order and groups, by a name that everyone finds here.</p>
        <input class="wide" aria-label="Name of the view" maxLength={100} required value={name} onInput={(event) => setName(event.currentTarget.value)} />
        {error && <Refused error={error} />}
        <div class="buttons">
          <button type="button" onClick={onClose}>Back</button>
          <button type="submit" class="main">Save</button>
        </div>
      </form>
    </Dialog>
  );
}
