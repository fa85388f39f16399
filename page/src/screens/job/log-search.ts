/** The search in a log: in what a person sees of each line, without the terminal's control sequences. */

import { plain } from "../../parts/ansi";

// eslint-disable-next-line no-control-regex
const HAS_CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/;

/** The places of the lines that have the text, in any case of letters. */
export function findHits(lines: { text: string }[], text: string): number[] {
  if (!text) return [];
  const wanted = text.toLowerCase();
  const hits: number[] = [];
  lines.forEach((line, n) => {
    const seen = HAS_CONTROL.test(line.text) ? plain(line.text) : line.text;
    if (seen.toLowerCase().includes(wanted)) hits.push(n);
  });
  return hits;
}
