/** The display name, tags and note of a job, edited in their place. */

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { act, ApiError, get, segment } from "../../api";
import { useMayAct } from "../../hooks";
import { Note } from "../../parts/note";
import { Refused } from "../../parts/placeholders";
import { href } from "../../router";
import type { Job } from "../../types";

/** tags: null removes one. seen: the same as they were. */
interface Change { display_name?: string; description?: string; tags?: Record<string, string | null>; seen?: Omit<Change, "seen"> }

export const changeJob = (name: string, change: Change): Promise<Job> => act<Job>("PATCH", `/jobs/${segment(name)}`, {}, change);

/** take: is given the job as it is after a change. */
export function Labels({ job, take }: { job: Job; take: (job: Job) => void }) {
  const mayAct = useMayAct();
  const [form, setForm] = useState<"tag" | "name">();
  const [error, setError] = useState<ApiError>();
  const change = async (wanted: Change) => {
    setError(undefined);
    try {
      take(await changeJob(job.name, wanted));
      setForm(undefined);
    } catch (refused) {
      setError(refused instanceof ApiError ? refused : new ApiError(0, String(refused)));
    }
  };
  const tags = Object.entries(job.tags);
  const setTag = (key: string, value: string | null) => change({ tags: { [key]: value }, seen: { tags: { [key]: job.tags[key] ?? null } } });
  const open = (wanted: "tag" | "name") => {
    setError(undefined);
    setForm(wanted);
  };
  return (
    <>
      <div class="labels">
        {tags.length > 0 && (
          <ul class="tags" aria-label="Tags">
            {tags.map(([key, value]) => (
              <li key={key} class="tag">
                <a href={href("/", { text: `tag:${key}=${value}` })} title={`All jobs with ${key}=${value}`}>{value ? `${key}=${value}` : key}</a>
                {mayAct && <button type="button" aria-label={`Remove the tag ${key}`} onClick={() => void setTag(key, null)}>×</button>}
              </li>
            ))}
          </ul>
        )}
        {mayAct && form !== "tag" && <button type="button" class="quiet" onClick={() => open("tag")}>Add a tag</button>}
        {mayAct && form !== "name" && <button type="button" class="quiet" onClick={() => open("name")}>Rename</button>}
        {form === "tag" && <TagForm save={(key, value) => void setTag(key, value)} onClose={() => setForm(undefined)} />}
        {form === "name" && (
          <NameForm before={job.display_name} onClose={() => setForm(undefined)}
            save={(name) => void change({ display_name: name, seen: { display_name: job.display_name } })} />
        )}
        <Note text={job.description} mayEdit={mayAct} of={job.name}
          save={(text, seen) => changeJob(job.name, { description: text, seen: { description: seen } }).then(take)}
          read={() => get<Job>(`/jobs/${segment(job.name)}`).then((now) => now.description)} />
      </div>
      {error && <Refused error={error} />}
    </>
  );
}

function NameForm({ before, save, onClose }: { before: string; save: (name: string) => void; onClose: () => void }) {
  const [name, setName] = useState(before);
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.focus(), []);
  return (
    <form class="inline-form" onSubmit={(event) => {
      event.preventDefault();
      save(name.trim());
    }} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <input aria-label="Display name" maxLength={255} value={name} ref={input} onInput={(event) => setName(event.currentTarget.value)} />
      <button type="submit" class="main">Save</button>
      <button type="button" onClick={onClose}>Cancel</button>
    </form>
  );
}

function TagForm({ save, onClose }: { save: (key: string, value: string) => void; onClose: () => void }) {
  const key = useRef<HTMLInputElement>(null);
  const value = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => key.current?.focus(), []);
  return (
    <form class="inline-form" onSubmit={(event) => {
      event.preventDefault();
      save(key.current!.value.trim(), value.current!.value.trim());
    }} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <input ref={key} aria-label="Name of the tag" placeholder="name" maxLength={250} required />
      <input ref={value} aria-label="Value of the tag" placeholder="value" maxLength={8000} />
      <button type="submit" class="main">Set</button>
      <button type="button" onClick={onClose}>Cancel</button>
    </form>
  );
}
