/** The files of a job as a person looks for them: MLflow's folders of runs, named by 32 digits, are left out. */

import type { FileEntry } from "../../types";

/** path: where it is shown; `file` is what the server calls it. */
export interface TreeFile { path: string; size: number; file: FileEntry }

const OF_RUN = /^outputs\/mlflow-artifacts\/([0-9a-f]{32})\/(.+)$/;
export const LOGGED = "logged";

/** Artifacts are shown under `logged/`; of several runs each in a folder that begins with the run's first digits. */
export function treeOf(files: FileEntry[]): TreeFile[] {
  const runs = new Set(files.flatMap(({ path }) => OF_RUN.exec(path)?.[1] ?? []));
  return files.map((file) => {
    const [, run, rest] = OF_RUN.exec(file.path) ?? [];
    const path = !run ? file.path : runs.size > 1 ? `${LOGGED}/run ${run.slice(0, 8)}/${rest}` : `${LOGGED}/${rest}`;
    return { path, size: file.size, file };
  });
}
