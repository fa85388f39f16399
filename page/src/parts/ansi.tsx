/** A line of a log as text: colours of the terminal become classes, every other control sequence is left out. */

const SEQUENCE = /\u001b\[([0-9;]*)m|\u001b\[[0-?]*[ -/]*[@-~]|\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)|\u001b./g;
// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u0008\u000b-\u001f\u007f]/g;

export interface Piece { text: string; class: string }

const LINK = /\bhttps?:\/\/[^\s"'<>`\u0000-\u001f]+[^\s"'<>`.,:;!?)\]}\u0000-\u001f]/g;

/** The text with its addresses of the web as links. They open in a tab of their own, which learns nothing of this page. */
export function linked(text: string): (string | preact.JSX.Element)[] {
  if (!text.includes("://")) return [text];
  const found: (string | preact.JSX.Element)[] = [];
  let from = 0;
  for (const match of text.matchAll(LINK)) {
    found.push(text.slice(from, match.index), <a key={match.index} href={match[0]} target="_blank" rel="noopener noreferrer">{match[0]}</a>);
    from = match.index + match[0].length;
  }
  return [...found, text.slice(from)];
}

/** The part of pieces between two of their characters. */
export function cut(all: Piece[], [from, to]: [number, number]): Piece[] {
  let at = 0;
  return all.flatMap((piece) => {
    const text = piece.text.slice(Math.max(0, from - at), Math.max(0, to - at));
    at += piece.text.length;
    return text ? [{ ...piece, text }] : [];
  });
}

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

/** The classes after a sequence of SGR codes (ECMA-48, with the extended colours of ITU T.416 as xterm writes them). */
function lookOf(codes: string, before: string): string {
  let bold = before.includes("ansi-bold");
  let colour = /ansi-(\d)/.exec(before)?.[1];
  const numbers = codes.split(";").map(Number);
  for (let at = 0; at < numbers.length; at += 1) {
    const code = numbers[at]!;
    if (code === 0) [bold, colour] = [false, undefined];
    else if (code === 1) bold = true;
    else if (code === 22) bold = false;
    else if (isBase(code)) colour = String(code % 10);
    else if (code === 39) colour = undefined;
    else if (code === 38 || code === 48 || code === 58) {
      const size = numbers[at + 1] === 5 ? 1 : numbers[at + 1] === 2 ? 3 : 0;
      if (code === 38 && size) colour = extended(numbers.slice(at + 2, at + 2 + size));
      at += 1 + size;
    }
  }
  return `${bold ? " ansi-bold" : ""}${colour === undefined ? "" : ` ansi-${colour}`}`;
}

const isBase = (code: number): boolean => (code >= 30 && code <= 37) || (code >= 90 && code <= 97);

/** The nearest of our colours to an index of the 256 (0-15 the base ones, 16-231 a cube, then greys) or to an RGB. */
function extended(numbers: number[]): string | undefined {
  if (numbers.length > 1) return nearest(numbers);
  const index = numbers[0];
  if (index === undefined) return undefined;
  if (index < 16) return String(index % 8);
  const cell = index - 16;
  return index > 231 ? undefined : nearest([Math.floor(cell / 36), Math.floor(cell / 6) % 6, cell % 6]);
}

/** By hue: the channels that are over half of the strongest one. A grey has none of our colours. */
function nearest(channels: number[]): string | undefined {
  const strongest = Math.max(...channels);
  const bits = channels.reduce((sum, one, n) => sum + (one > strongest / 2 ? 1 << n : 0), 0);
  return strongest === 0 || bits === 7 ? undefined : String(bits);
}
