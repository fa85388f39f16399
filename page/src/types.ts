/** What the API answers; the names are those of docs/openapi.json. */

export type State =
  | "queued" | "provisioning" | "staging" | "running" | "stopping" | "finalizing"
  | "completed" | "failed" | "canceled";

export interface Exit { rank: number; code: number | null; signal: number | null; at: number }
export interface JobNode {
  node: number; machine: string; host: string; address: string; phase: string; detail: string; error: string;
  lost: boolean; exits: Exit[];
}
export interface Verdict {
  reason: string; sentence: string; rank: number | null; node: number | null; code: number | null; tail: string;
  advice: string;
  /** What became of the ranks that aren't the cause. */
  aftermath?: string;
}
export interface Failure { attempt: number; round: number; at: string; verdict: Verdict }
export interface Output {
  name: string; place: "to_come" | "under_way" | "in_place" | "failed" | "kept"; uri: string; asset: string;
  files: number; size: number; problem: string; type?: string;
}
export interface BestTrial { job: string; name: string; value: number }
/** The metric that counts. goal: which values are better, absent or null = unknown. source: who has said that it counts. */
export interface Primary {
  name: string; value: number | string; step: number; goal?: "maximize" | "minimize" | null; best?: number | null;
  best_step?: number | null; source?: "experiment" | "job" | "guess";
}
/** A metric that is no number any more: value is NaN, Infinity or -Infinity. */
export interface NotFinite { name: string; value: string; since_step: number }
export interface Service {
  name: string; type: string; node: number; is_running: boolean; problem: string; is_web: boolean;
}
export interface StoryLine {
  n: number; at: string; state: State; reason: string; sentence: string; attempt: number; round: number;
}
export interface Job {
  name: string; display_name: string; description: string; experiment: string; state: State; reason: string;
  sentence: string; observed: { word: string; at: string } | null; attempt: number; round: number; nodes: JobNode[];
  world_size: number; node_count: number; processes_per_node: number; launcher: string; compute: string;
  environment: string; command: string; submitted_at: string; started_at: string | null; ended_at: string | null;
  stop_at: string | null; deadline: string | null; verdict: Verdict | null; exit_code: number | null;
  failures: Failure[]; tags: Record<string, string>; archived: boolean; priority: number;
  properties: Record<string, string>; notice: string; outputs: Output[]; parent?: string; person?: string;
  primary?: Primary; not_finite?: NotFinite; best_trial?: BestTrial; has_slow_rank?: boolean; services?: Service[]; mesh?: Record<string, number>; elastic?: Elastic;
  /** Only with the story. */
  preflight?: Preflight | null;
  type: "command" | "sweep" | "pipeline" | "deployment"; story?: StoryLine[];
  /** The job that it was run again from, and those that were run again from it, the newest first. */
  origin?: string; successors?: string[];
  /** The job that it continues from a checkpoint, and those of its successors that continue from its last one. */
  continues?: Continued; continued_by?: string[];
}
export interface Continued { job: string; step: number | null }
/** The last checkpoint of a job. is_certain: else only its nodes know whether there is one. problem: why no job can continue from it. */
export interface Checkpoint { job: string; step: number | null; saved_at: string | null; size: number; is_certain: boolean; problem: string; fix: string }
/** A snapshot of code, and the last job that ran it. */
export interface CodeSnapshot { digest: string; job: string; submitted_at: string }
export interface Elastic { min_nodes: number; nodes: number; max_nodes: number; grow: "at_checkpoint" | "at_once" }
export interface NodePreflight { node: number; machine: string; host: string; clock_ms: number; free_bytes: number; write_ms: number }
/** -1: not measured. */
export interface Link {
  node: number; peer: number; out_bits_per_s: number; in_bits_per_s: number; round_trip_us: number; error: string;
}
export interface Preflight { sentence: string; problems: string[]; nodes: NodePreflight[]; links: Link[] }
/** The report of `drumbeat rehearse`, as it is kept with the first unbroken job. */
export interface Rehearsal {
  verdict: string; is_passed: boolean; file: string; tag: string; compute: string; nodes: number; ranks: number;
  seed: number; unbroken: { job: string; seconds: number }[]; runs: RehearsalRun[]; judged: string[];
  unjudged: string[]; observations: { kind: string; sentence: string }[]; hints: RehearsalHint[];
}
export interface RehearsalRun {
  number: number; job: string; fault: string; target: string; state: State; sentence: string; restarts: number;
  is_equal: boolean | null; cost: RehearsalCost; seconds: number; differences: string[];
}
export interface RehearsalCost {
  step: number | null; resumed: number | null; lost_steps: number | null; next_step_s: number | null;
  extra_s: number | null;
}
export interface RehearsalHint { where: string; code: string; what: string; fix: string; is_observed: boolean }
/** server: the name of its machine. idle_stop_s: after so many idle seconds it stops; 0 = never. */
export interface Session {
  action_token: string; person: string; role: "owner" | "contributor" | "reader"; server?: string; version?: string; idle_stop_s?: number;
}
export interface Use {
  kind: "person" | "experiment"; name: string; slots: number; gpus: number; waiting: number; recent_use: number;
}
export interface Uses { half_life_s: number; uses: Use[] }
export interface JobPage { jobs: Job[]; after: string | null }
export interface JobChanges { jobs: Job[]; removed: string[]; is_partial: boolean }
export interface LogPiece {
  position: number; attempt: number; round: number; node: number; rank: number; offset: number; text: string;
  /** When the server received it, in seconds since the epoch; 0 or absent = unknown. */
  at?: number;
}
export interface LogPage { pieces: LogPiece[]; after: number; end: number; first: number }
export interface Point { step: number; value: number | string; at: string }
export interface Series { name: string; rank: number; count: number; last: Point; min: Point | null; max: Point | null }
export interface Metrics {
  job: string; run: string; experiment: string; status: string; series: Series[]; params: Record<string, string>;
  tags: Record<string, string>;
}
export interface RankedJob { job: string; value: number }
export interface Standing {
  metric: string; goal: "maximize" | "minimize"; value: number; step: number; rank: number; of: number; best: RankedJob;
  before: RankedJob | null;
}
/** One job at a glance. */
export interface Overview {
  job: string; held_s: number; slot_hours: number; gpu_hours: number; lost_s: number; inputs: Record<string, string>;
  parameters: Record<string, string>; note: string; series: Series[]; standing: Standing | null;
  use: { peak_memory_mib: number | null; cpu_cores: number | null; gpu_percent: number | null; peak_gpu_memory_mib: number | null };
}
export interface Curve { name: string; rank: number; points: Point[] }
export interface JobCurve { job: string; name: string; rank: number; steps: number[]; values: (number | string)[] }
export interface FileEntry { path: string; size: number }
/** goal: of the metric that counts. */
export interface ComparedRow { section: string; key: string; values: unknown[]; goal?: "maximize" | "minimize" | null }
export interface Comparison { jobs: string[]; differences: ComparedRow[]; outcomes: ComparedRow[] }
export interface Definition { document: Record<string, unknown>; text: string; plan: Record<string, unknown> }
export interface Trial {
  number: number; job: string; state: State | null; sentence: string; parameters: Record<string, unknown>;
  value: number | null; last: number | null; reports: number; stopped: string;
}
export interface Sweep {
  name: string; state: State; sentence: string; goal: string; primary_metric: string; max_total_trials: number;
  max_concurrent_trials: number; trials: Trial[]; best: number | null;
}
export interface Step {
  name: string; job: string; type: Job["type"]; state: State | null; sentence: string; after: string[];
  result: string; reused: string; skipped: string;
}
export interface Pipeline {
  name: string; state: State; sentence: string; steps: Step[]; edges: { source: string; target: string }[];
  outputs: { name: string; step: string; output: string; job: string }[];
}
/** When a job that waits may start. at: null = unknown, as the sentence says. latest: by the time limits. */
export interface Start { job: string; compute: string; place: number; waiting: number; at: string | null; latest: string | null; sentence: string }
/** A job that holds slots. ground: by what its end is estimated, or why it isn't. */
export interface Holder {
  job: string; person: string; nodes: number; cpus: number; gpus: number; since: string | null; step: number | null; steps: number | null;
  deadline: string | null; ends_at: string | null; ground: string;
  /** Whether its time limit is all that is known: it may end sooner. */
  is_limit: boolean; is_hanging: boolean;
}
export interface Outlook { job: string; start: Start | null; holders: Holder[]; fewer: string; own: Holder | null }
/** What a node (rank -1 for node 0) or a rank used, by the means of equal parts of the time. */
export interface ResourceSeries { name: string; rank: number; values: (number | null)[]; last: number; highest: number }
export interface Resources {
  job: string; sentence: string; start: string | null; part_s: number; parts: number; series: ResourceSeries[];
  idle: { name: string; rank: number }[];
}
export interface Machine {
  name: string; cpus: number; gpus: string[]; memory_mib: number; state: "idle" | "running" | "unusable"; word: string;
  unusable: string;
}
export interface Held { job: string; attempt: number; node: number; machine: string; cpus: number; gpus: string[]; is_hanging?: boolean; person?: string; since?: string | null }
export interface Compute {
  name: string; engine: string; machines: Machine[]; held: Held[]; waiting: number; trouble: string;
  spec: Record<string, unknown>;
}
export interface Experiment {
  id: string; name: string; archived: boolean; created_at: string; updated_at: string; jobs: number;
  latest_at: string | null; tags: Record<string, string>; names: string[];
}
/** kind: the type; of a model, which kind of model it is. */
export interface Data {
  name: string; version: string; type: string; kind: string; uri: string; digest: string; created_at: string; made_by: string;
  description: string; tags: Record<string, string>; files: number; size: number; is_archived: boolean;
  used_by: { job: string; role: string }[];
}
export interface ModelVersion {
  name: string; version: string; type: string; uri: string; digest: string; created_at: string; made_by: string;
  description: string; stage: string; aliases: string[]; tags: Record<string, string>; files: number; size: number;
  statement: string; scan: string; problem: string; is_archived: boolean; lineage: ModelLineage;
  used_by: { job: string; role: string }[];
}
/** What the signed statement of a model says of its origin; each part is absent where there is none. */
export interface ModelLineage {
  job?: { name: string; plan: string; file: string; person: string; submitted_at: string };
  registered_by?: string;
  code?: { snapshot: string };
  environment?: Record<string, string>;
  data?: { input: string; uri: string; kind?: "data" | "model"; name?: string; version?: string; digest?: string }[];
  mlflow?: Record<string, string>;
  metrics?: Record<string, { value: number | string; step: number }>;
}
export interface Environment {
  name: string; version: string; image: string; created_at: string | null; curated: boolean; about: string;
  means: string[]; notes: string[]; jobs: string[]; problem: string; python: unknown; is_archived: boolean;
}
export interface Datastore {
  name: string; type: string; credentials: string; is_default: boolean; is_builtin: boolean;
  document: Record<string, unknown>;
}
export interface Schedule {
  name: string; user: string; is_enabled: boolean; title: string; next_run: string | null; last_run: string | null;
  last_job: string; problem: string; display_name: string;
}
export type EndpointState = "creating" | "updating" | "ready" | "failed" | "deleting";
export interface EndpointDefinition {
  name: string; auth_mode: "key" | "aml_token"; traffic: Record<string, number>; mirror_traffic: Record<string, number>;
  description: string; tags: Record<string, string>;
}
export interface Endpoint {
  definition: EndpointDefinition; state: EndpointState; scoring_uri: string; created_at: string; sentence: string; deployments: string[];
}
export interface Deployment {
  definition: { name: string; endpoint_name: string }; state: EndpointState; created_at: string; generation: number; job: string;
  ready: number; wanted: number; sentence: string;
}
export interface RequestRates { requests_per_s: number; errors_per_s: number; p50_ms: number | null; p95_ms: number | null }
export interface ReplicaRequests {
  job: string; state: State | null; generation: number; is_ready: boolean; sentence: string; running: number;
}
/** now: of the last half minute. model: the exact version, or an address. */
export interface DeploymentRequests {
  deployment: Deployment; model: string; now: RequestRates; requests: number; errors: number; running: number; waiting: number;
  replicas: ReplicaRequests[]; curve: { times: number[]; rates: RequestRates[] };
}
export interface SampleAnswer { status: number; seconds: number; body: string; content_type: string; deployment: string; is_whole: boolean }
export interface EndpointKeys { primary: string; secondary: string }
export interface EndpointToken { access_token: string; expires_at: string }
export interface Status {
  uptime_s: number; unfinished: string[]; idle_s: number; idle_stop_s: number; publishing: string[];
  doors: { address: string; port: number; ends: string }[]; others: string[]; retain_s: number;
  /** When the home was last backed up; null = never. */
  backup_at?: string | null;
  unknown_jobs?: string[];
}
export interface LedgerRow {
  name: string; jobs: number; wall_s: number; seconds: Record<string, number>; slot_s: number; gpu_s: number;
  slot_seconds: Record<string, number>; gpu_seconds: Record<string, number>; busy_gpu_s: number; cost: number | null;
}
export interface Ledger {
  by: "job" | "experiment" | "person" | "compute" | "week" | "day"; since: string | null; until: string | null; rows: LedgerRow[];
  total: LedgerRow; currency: string;
}
export interface UseHistory {
  since: string; until: string; by: "person" | "experiment" | "compute"; step: string; compute: string; starts: string[]; lengths_s: number[];
  series: { name: string; slot_s: number[]; gpu_s: number[] }[]; gpu_s: number; slot_s: number; work_slot_s: number[]; busy_gpu_s: number[];
  waiting: number[]; waits: { jobs: number; p50_s: number | null; p95_s: number | null }; slots: (number | null)[]; gpus: (number | null)[];
  idle: { job: string; person: string; gpu_s: number; idle_gpu_s: number; slot_s: number; idle_slot_s: number }[];
}
export interface Quota { kind: "person" | "experiment"; name: string; slots: number | null; gpus: number | null; waiting: number | null }
export interface NoticeTarget {
  name: string; type: string; jobs: string; on: string[]; place: string; receivers: string[]; description: string;
  problem: string;
}
export interface Version { version: string; protocol: number; boot_id: string; host: string; pid: number; home: string }
export interface Usage {
  items: { kind: string; name: string; size: number; used_at: string | null; note: string }[];
  totals: Record<string, number>; total: number; free: number; retain_s: number;
}
export interface StackFrame { function: string; file: string; line: number }
export interface RankStacks { rank: number; doing: string; processes: { is_helper: boolean; threads: { frames: StackFrame[] }[] }[] }
export interface NodeStacks { node: number; host: string; ranks: RankStacks[]; error: string }
export interface SpaceItem { kind: string; name: string; size: number; note: string; parts: Record<string, number> }
/** asset: the registered version without which it could be deleted; "" = there is none. */
export interface KeptItem { what: string; why: string; fix: string; asset: string }
export interface Freed { items: SpaceItem[]; kept: KeptItem[]; total: number }
export type RunCell = number | string | null;
/** unit: text, number, any, time (milliseconds) or duration (seconds). */
export interface RunColumn { field: string; unit: string }
export interface RunRow { job: string; title: string; experiment: string; state: State; reason: string; type: Job["type"]; is_archived: boolean; values: RunCell[] }
export interface RunTableAnswer { columns: RunColumn[]; runs: RunRow[]; total: number }
/** is_primary: it is the metric that counts of these runs. goal: which values of a metric are better; null = unknown. */
export interface RunField { field: string; unit: string; runs: number; values: number; is_default: boolean; is_primary: boolean; goal: "maximize" | "minimize" | null }
export interface RunView { name: string; columns: string; where: string; sort: string; group_by: string; person: string; saved_at: string }
/** A chart that is drawn for each job of an experiment. x: of a scatter chart, the metric on the axis of x. */
export type CardSize = "normal" | "wide" | "tall" | "large";
export interface SavedChart { name: string; kind: "lines" | "scatter" | "bars"; metrics: string[]; x: string; person: string; saved_at: string }
