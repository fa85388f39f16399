/** Runs a job again with changes: its settings as a form and its job file as text, checked by the server while they are typed. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { act, ApiError, segment, serverNow, type Problem } from "../../api";
import { useAnswer } from "../../hooks";
import { Dialog } from "../../parts/dialog";
import { Answered, Refused } from "../../parts/placeholders";
import { go, jobHref } from "../../router";
import { dated } from "../../format";
import type { Checkpoint, CodeSnapshot, Definition, Job } from "../../types";
import { checkpointLabel, inputsOf, isAbout, keyOf, otherCode, readText, requestOf, standsFor, textFor, valueAt, withValue, type KeyPath } from "./run-again-form";

const PAUSE_MS = 350;
/** How long nothing is typed before the server is asked. */

interface Checked { queue?: string; notes?: readonly string[]; never?: boolean; problems: readonly Problem[] }

/** What the dialog needs to know of the job that is run again. */
export type Earlier = Pick<Job, "name" | "type" | "ended_at">;

export function RunAgainDialog({ job, onClose }: { job: Earlier; onClose: () => void }) {
  const answer = useAnswer<Definition>(`/jobs/${segment(job.name)}/definition`);
  return (
    <Dialog title={`Run ${job.name} again`} onClose={onClose} isWide>
      <Answered answer={answer}>{(definition) => <Form job={job} definition={definition} onClose={onClose} />}</Answered>
    </Dialog>
  );
}

function Form({ job, definition, onClose }: { job: Earlier; definition: Definition; onClose: () => void }) {
  const [original] = useState(() => textFor(definition.text));
  const [text, setText] = useState(original);
  const [checked, setChecked] = useState<Checked>();
  const [error, setError] = useState<ApiError>();
  const [isBusy, setBusy] = useState(false);
  const key = useRef(newKey());
  const computes = useAnswer<{ name: string }[]>("/computes");
  const last = useAnswer<Checkpoint>(job.type === "command" ? `/jobs/${segment(job.name)}/checkpoint` : undefined).value;
  const snapshots = useAnswer<CodeSnapshot[]>(job.type === "pipeline" ? undefined : `/jobs/${segment(job.name)}/snapshots`).value ?? [];
  const [resume, setResume] = useState(false);
  const [code, setCode] = useState("");
  const start = { like: job.name, resume, code };
  const read = useMemo(() => readText(text), [text]);
  useEffect(() => {
    setChecked(undefined);
    setError(undefined);
    if ("problem" in read) return setChecked({ problems: [read.problem] });
    let isOld = false;
    const timer = setTimeout(() => {
      act<Checked>("POST", "/plan", {}, requestOf(read.document, start)).then(
        (plan) => isOld || setChecked({ queue: plan.queue ?? "", notes: plan.notes ?? [], never: plan.never ?? false, problems: [] }),
        (refused) => isOld || setChecked({ problems: problemsOf(refused) }),
      );
    }, PAUSE_MS);
    return () => {
      isOld = true;
      clearTimeout(timer);
    };
  }, [read, resume, code]);
  const run = async () => {
    if ("problem" in read) return;
    setBusy(true);
    try {
      const started = await act<Job>("POST", "/jobs", {}, { ...requestOf(read.document, start), key: key.current });
      onClose();
      go(jobHref(started.name));
    } catch (refused) {
      setError(refused instanceof ApiError ? refused : new ApiError(0, String(refused)));
      setBusy(false);
    }
  };
  const problems = checked?.problems ?? [];
  const change = (path: KeyPath) => (value: string) => setText((before) => withValue(before, path, value, original));
  const fields = "problem" in read ? [] : inputsOf(text);
  const codes = otherCode(snapshots, String(definition.plan.code ?? ""));
  const canResume = last !== undefined && !last.problem;
  const paths: KeyPath[] = [...fields.map((one) => one.path), COMPUTE, NODES, PRIORITY, LIMIT, ...(canResume ? [RESUME] : []), ...(codes.length ? [CODE] : [])];
  const others = problems.filter((one) => !paths.some((path) => isAbout(one, path)));
  const about = (path: KeyPath) => problems.filter((one) => isAbout(one, path));
  const compute = valueAt(text, COMPUTE);
  const prefix = compute.startsWith("azureml:") ? "azureml:" : "";
  const names = [...new Set([compute, ...(computes.value ?? []).map((one) => prefix + one.name)])].filter(Boolean);
  return (
    <form class="run-again" onSubmit={(event) => {
      event.preventDefault();
      void run();
    }}>
      <p class="muted">With the {code ? "" : "code and the "}files of {job.name}{job.type === "command" ? "" : `; it is a ${job.type}`}.{job.type !== "pipeline" && <> A browser can't send a folder; <code>drumbeat run --like {job.name} --code FOLDER</code> does.</>}</p>
      {(canResume || codes.length > 0) && (
        <fieldset>
          <legend>Beginning</legend>
          <div class="run-fields">
            {canResume && (
              <WordedChoice isWide label="Starts" value={resume ? "resume" : ""} change={(value) => setResume(value === "resume")} problems={about(RESUME)}
                options={[["", "from the beginning"], ["resume", checkpointLabel(last, job.ended_at)]]} />
            )}
            {codes.length > 0 && (
              <WordedChoice isWide label="Code" value={code} change={setCode} problems={about(CODE)}
                options={[["", `that of ${job.name}`], ...codes.map((one): [string, string] => [one.digest, `that of ${one.job}, ${dated(one.submitted_at, serverNow())}`])]} />
            )}
          </div>
        </fieldset>
      )}
      {fields.length > 0 && (
        <fieldset>
          <legend>Inputs</legend>
          <div class="run-fields">
            {fields.map((one) => <TextField key={one.path.join(".")} label={one.label} value={one.value} change={change(one.path)} problems={about(one.path)} />)}
          </div>
        </fieldset>
      )}
      <fieldset>
        <legend>Where and how</legend>
        <div class="run-fields">
          <Choice label="Compute" value={compute} options={names} none="the default" change={change(COMPUTE)} problems={about(COMPUTE)} />
          {job.type === "command" && <TextField label="Nodes" kind="number" value={valueAt(text, NODES)} none="1" change={change(NODES)} problems={about(NODES)} />}
          <Choice label="Priority" value={valueAt(text, PRIORITY)} options={["low", "medium", "high"]} none="the default" change={change(PRIORITY)} problems={about(PRIORITY)} />
          <TextField label="Time limit, s" kind="number" value={valueAt(text, LIMIT)} none="none" change={change(LIMIT)} problems={about(LIMIT)} />
        </div>
      </fieldset>
      <details open={fields.length === 0 || "problem" in read}>
        <summary>Job file</summary>
        <textarea class="wide machine" rows={14} spellcheck={false} aria-label="Job file" value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </details>
      <div role="status" class="run-check">
        {!checked && <p class="muted">Checking…</p>}
        {checked?.queue && <p class={checked.never ? "tone-bad" : "tone-good"}>{checked.queue}</p>}
        {(checked?.notes ?? []).map((one) => <p key={one} class="muted">{one}</p>)}
        {others.length > 0 && <ul class="problems">{others.map((one, n) => <li key={n} class="tone-bad">{keyOf(one) && <code>{keyOf(one)}</code>} {one.what}{one.fix && `. ${one.fix}`}</li>)}</ul>}
      </div>
      {error && <Refused error={error} />}
      <div class="buttons">
        <button type="button" onClick={onClose}>Back</button>
        <button type="submit" class="main" disabled={isBusy || problems.length > 0}>Run</button>
      </div>
    </form>
  );
}

/** With it, a request that is sent twice starts one job. */
const newKey = (): string => Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");

const COMPUTE: KeyPath = ["compute"];
const NODES: KeyPath = ["resources", "instance_count"];
const PRIORITY: KeyPath = ["queue_settings", "priority"];
const LIMIT: KeyPath = ["limits", "timeout"];
const RESUME: KeyPath = ["resume"];
const CODE: KeyPath = ["code"];

const problemsOf = (refused: unknown): readonly Problem[] =>
  refused instanceof ApiError && refused.problems.length ? refused.problems : [{ what: refused instanceof ApiError ? refused.what : String(refused), where: "", fix: "" }];

interface FieldProps { label: string; value: string; change: (value: string) => void; problems: Problem[]; none?: string }

function TextField({ label, value, change, problems, none = "", kind = "text" }: FieldProps & { kind?: "text" | "number" }) {
  const [typed, setTyped] = useState(value);
  return (
    <label class="run-field">
      <span>{label}</span>
      <input type={kind === "number" ? "text" : kind} inputMode={kind === "number" ? "numeric" : "text"} value={standsFor(typed, value) ? typed : value} placeholder={none} aria-invalid={problems.length > 0} onInput={(event) => {
        setTyped(event.currentTarget.value);
        change(event.currentTarget.value);
      }} />
      <Problems problems={problems} />
    </label>
  );
}

const Choice = ({ options, none = "", ...field }: FieldProps & { options: string[] }) => (
  <WordedChoice {...field} options={[["", none], ...options.map((one): [string, string] => [one, one])]} />
);

/** A choice among values that have words of their own. */
function WordedChoice({ label, value, change, problems, options, isWide = false }: FieldProps & { options: [string, string][]; isWide?: boolean }) {
  return (
    <label class={`run-field${isWide ? " whole-row" : ""}`}>
      <span>{label}</span>
      <select value={value} aria-invalid={problems.length > 0} onChange={(event) => change(event.currentTarget.value)}>
        {options.map(([one, words]) => <option key={one} value={one}>{words}</option>)}
      </select>
      <Problems problems={problems} />
    </label>
  );
}

function Problems({ problems }: { problems: Problem[] }) {
  return <>{problems.map((one, n) => <span key={n} class="field-problem tone-bad">{one.what}{one.fix && `. ${one.fix}`}</span>)}</>;
}
