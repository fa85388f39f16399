/** A chart as a file: its points as csv, its picture as png. */

import type { Curve } from "../../types";

const quoted = (text: string): string => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

/** The points of curves, a line each, as `drumbeat metrics --csv` has them. */
export function csvOf(curves: Curve[]): string {
  const rows = curves.flatMap((curve) => curve.points.map((point) => [quoted(curve.name), curve.rank, point.step, point.value, point.at].join(",")));
  return ["name,rank,step,value,at", ...rows, ""].join("\n");
}

const fileName = (title: string): string => title.replace(/[^\w.-]+/g, "-");

function save(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export const saveCsv = (title: string, text: string): void => save(`${fileName(title)}.csv`, new Blob([text], { type: "text/csv" }));

/** Saves the picture of the chart within a figure, on the page's ground and with its title. */
export async function savePicture(title: string, figure: HTMLElement): Promise<void> {
  const source = figure.querySelector("canvas");
  if (!source) return;
  const [scale, style] = [devicePixelRatio, getComputedStyle(document.documentElement)];
  const head = 26 * scale;
  const picture = document.createElement("canvas");
  [picture.width, picture.height] = [source.width, source.height + head];
  const context = picture.getContext("2d")!;
  context.fillStyle = style.getPropertyValue("--surface").trim();
  context.fillRect(0, 0, picture.width, picture.height);
  context.fillStyle = style.getPropertyValue("--text").trim();
  context.font = `600 ${13 * scale}px ${style.getPropertyValue("--sans").trim()}`;
  context.fillText(title, 10 * scale, 18 * scale);
  context.drawImage(source, 0, head);
  const content = await new Promise<Blob | null>((resolve) => picture.toBlob(resolve, "image/png"));
  if (content) save(`${fileName(title)}.png`, content);
}
