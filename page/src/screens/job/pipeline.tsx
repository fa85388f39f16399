/** A pipeline as its graph, from left to right: what has run, what runs, what waits, what was reused. */

import { graphlib, layout } from "@dagrejs/dagre";
import { useMemo } from "preact/hooks";
import { segment } from "../../api";
import { between, duration } from "../../format";
import { useAnswer, useEvents, useJobEvents, useThrottled } from "../../hooks";
import { Answered } from "../../parts/placeholders";
import { StateIcon, StateWord, tone } from "../../parts/job-state";
import { spanOf, Timeline } from "../../parts/timeline";
import { Ago, Took } from "../../parts/time";
import { href, jobHref } from "../../router";
import { isHang } from "./hang-and-start";
import { endOf, flowsOf, useRunBefore, useStepJobs, type EarlierRun } from "./pipeline-times";
import type { Definition, Job, Pipeline, Step, StoryLine } from "../../types";

interface Spot { x: number; y: number }

const WIDTH = 190;
const HEIGHT = 58;

export function GraphTab({ job }: { job: Job; story: StoryLine[] }) {
  const answer = useAnswer<Pipeline>(`/pipelines/${segment(job.name)}`);
  const reload = useThrottled(answer.reload, 800);
  useEvents("jobs", (changes) => changes.jobs.some((one) => one.parent === job.name || one.name === job.name) && reload());
  useJobEvents(job.name, "state", reload);
  return (
    <Answered answer={answer}>
      {(pipeline) => <Steps job={job} pipeline={pipeline} />}
    </Answered>
  );
}

function Steps({ job, pipeline }: { job: Job; pipeline: Pipeline }) {
  const jobs = useStepJobs(pipeline);
  const definition = useAnswer<Definition>(`/jobs/${segment(job.name)}/definition`, {}, true);
  const flows = useMemo(() => flowsOf(definition.value?.document), [definition.value]);
  const before = useRunBefore(job);
  const spans = pipeline.steps.flatMap((step) => (jobs.has(step.job) ? [spanOf(jobs.get(step.job)!, step.name)] : []));
  return (
    <>
      <Graph pipeline={pipeline} jobs={jobs} flows={flows} />
      <Timeline spans={spans} title="When steps ran" />
      {before && <Before job={job} before={before.job} />}
      <StepTable pipeline={pipeline} jobs={jobs} before={before} />
    </>
  );
}

function Before({ job, before }: { job: Job; before: Job }) {
  return (
    <p class="buttons run-before">
      <span>The run before was <a href={jobHref(before.name)}>{before.name}</a>, submitted <Ago at={before.submitted_at} />: it took <Took from={before.started_at} to={before.ended_at} />.</span>
      <a class="button" href={href("/compare", { job: [before.name, job.name] })}>Compare</a>
    </p>
  );
}

const statusOf = (step: Step): string => (step.reused ? "reused" : step.skipped ? "not run" : isHang(step.sentence) && step.state === "running" ? "hanging" : (step.state ?? "waiting"));

/** The job to look at: the step's own, or the earlier one whose result was taken. */
const targetOf = (step: Step): string => (step.state || step.reused ? step.reused || step.job : "");

function laidOut({ steps, edges }: Pick<Pipeline, "steps" | "edges">): graphlib.Graph {
  const graph = new graphlib.Graph();
  graph.setGraph({ rankdir: "LR", nodesep: 22, ranksep: 96, marginx: 2, marginy: 2 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const step of steps) graph.setNode(step.name, { width: WIDTH, height: HEIGHT });
  for (const edge of edges) graph.setEdge(edge.source, edge.target);
  layout(graph);
  return graph;
}

const MAX_FLOW = 13;

/** What flows on an edge, shortened to its space. */
const flowText = (names: string[]): string => {
  const text = names.length > 2 ? `${names[0]}, +${names.length - 1}` : names.join(", ");
  return text.length > MAX_FLOW ? `${text.slice(0, MAX_FLOW - 1)}…` : text;
};

function Graph({ pipeline, jobs, flows }: { pipeline: Pipeline; jobs: Map<string, Job>; flows: Map<string, string[]> }) {
  // The places of hundreds of steps take long to find: they stay while states change.
  const shape = JSON.stringify([pipeline.steps.map((step) => step.name), pipeline.edges]);
  const graph = useMemo(() => laidOut(pipeline), [shape]);
  const { width = 0, height = 0 } = graph.graph() as { width?: number; height?: number };
  return (
    <div class="graph" tabIndex={0} role="region" aria-label="The graph of steps; the table below has the same">
      <svg width={width} height={height} viewBox={`0 0 ${width} ${height}`}>
        {pipeline.edges.map((edge) => (
          <path key={`${edge.source} ${edge.target}`} class="edge" d={curveOf((graph.edge(edge.source, edge.target) as { points: Spot[] }).points)} />
        ))}
        {pipeline.edges.map((edge) => {
          const names = flows.get(`${edge.source} ${edge.target}`);
          const { points } = graph.edge(edge.source, edge.target) as { points: Spot[] };
          const middle = points[Math.floor(points.length / 2)]!;
          return names && <text key={`${edge.source} ${edge.target}`} class="flow" x={middle.x} y={middle.y - 5} text-anchor="middle"><title>{`${edge.target} takes ${names.join(", ")} of ${edge.source}`}</title>{flowText(names)}</text>;
        })}
        {pipeline.steps.map((step) => <StepBox key={step.name} step={step} job={jobs.get(step.job)} at={graph.node(step.name) as Spot} />)}
      </svg>
    </div>
  );
}

/** A smooth line through the points that the layout found around the boxes. */
function curveOf(points: Spot[]): string {
  const [first, ...rest] = points;
  if (!first) return "";
  let path = `M${first.x} ${first.y}`;
  let from = first;
  for (const to of rest) {
    const middle = (from.x + to.x) / 2;
    path += `C${middle} ${from.y} ${middle} ${to.y} ${to.x} ${to.y}`;
    from = to;
  }
  return path;
}

function StepBox({ step, job, at }: { step: Step; job: Job | undefined; at: Spot }) {
  const status = statusOf(step);
  const target = targetOf(step);
  const took = job?.started_at && job.ended_at && !step.reused ? ` · ${duration(between(job.started_at, job.ended_at))}` : "";
  const name = step.name.length > 22 ? `…${step.name.slice(-21)}` : step.name;
  const box = (
    <g class={`step tone-${tone(status)}`} transform={`translate(${at.x - WIDTH / 2} ${at.y - HEIGHT / 2})`}>
      <title>{step.sentence || status}</title>
      <rect width={WIDTH} height={HEIGHT} rx="9" />
      <rect class="step-mark" width="4" height={HEIGHT - 20} x="0" y="10" rx="2" />
      <g transform="translate(13 11)"><StateIcon state={status} /></g>
      <text class="step-name" x="33" y="23">{name}</text>
      <text class="step-word" x="33" y="42">{`${step.type === "command" ? "" : `${step.type} · `}${status}${took}`}</text>
    </g>
  );
  return target ? <a href={jobHref(target)}>{box}</a> : box;
}

/** How much longer a step took than in the run before. */
export function changeOf(now: number | undefined, before: number | undefined): string {
  if (now === undefined || before === undefined) return "–";
  const more = now - before;
  const share = before > 0 ? `, ${more < 0 ? "−" : "+"}${Math.round(Math.abs(more / before) * 100)} %` : "";
  return `${more < 0 ? "−" : "+"}${duration(Math.abs(more))}${share}`;
}

function StepTable({ pipeline, jobs, before }: { pipeline: Pipeline; jobs: Map<string, Job>; before: EarlierRun | undefined }) {
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Steps">
      <table class="plain">
        <thead><tr><th scope="col">Step</th><th scope="col">State</th><th scope="col" class="right">Took</th>{before && <th scope="col" class="right">Than before</th>}<th scope="col">After</th><th scope="col">What happens</th></tr></thead>
        <tbody>
          {pipeline.steps.map((step) => {
            const target = targetOf(step);
            const job = step.reused ? undefined : jobs.get(step.job);
            const took = job?.started_at && job.ended_at ? between(job.started_at, job.ended_at) : undefined;
            return (
              <tr key={step.name}>
                <td>{target ? <a href={jobHref(target)}>{step.name}</a> : step.name}</td>
                <td><StateWord state={statusOf(step)} /></td>
                <td class="right"><Took from={job?.started_at ?? null} to={job?.ended_at ?? null} /></td>
                {before && <td class="right number muted">{changeOf(took, before.took.get(endOf(step.job, pipeline.name)))}</td>}
                <td class="muted">{step.after.join(", ") || "–"}</td>
                <td class="muted">{step.reused ? `the result of ${step.reused} was taken` : step.skipped || step.sentence || "waits for the steps before it"}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
