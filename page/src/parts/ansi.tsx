/** A line of a log as text: colours of the terminal become classes, every other control sequence is left out. */

const SEQUENCE = /\u001b\[([0-9;]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b./g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

export interface Piece { text: string; class: string }

export const plain = (text: string): string => text.replace(SEQUENCE, "").replace(CONTROL, "");

export function pieces(text: string): Piece[] {
  if (!text.includes("\u001b")) return [{ text: text.replace(CONTROL, ""), class: "" }];
  const found: Piece[] = [];
  let [from, look] = [0, ""];
  for (const match of text.matchAll(SEQUENCE)) {
    push(found, text.slice(from, match.index), look);
    if (match[1] !== undefined) look = lookOf(match[1], look);
    from = match.index + match[0].length;
  }
  push(found, text.slice(from), look);
  return found;
}

function push(found: Piece[], text: string, look: string): void {
  const shown = text.replace(CONTROL, "");
  if (shown) found.push({ text: shown, class: look });
}

function lookOf(codes: string, before: string): string {
  let look = before;
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) look = "";
    else if (code === 1) look += " ansi-bold";
    else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) look = `${look.replace(/ ?ansi-\d/g, "")} ansi-${code % 10}`;
    else if (code === 39) look = look.replace(/ ?ansi-\d/g, "");
  }
  return look;
}
