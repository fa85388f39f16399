/** What is searched in a log: a text in any case of letters, or a regular expression; and numbers of ranks and nodes. */

/** spanOf: where the first match in a text is; undefined = there is none. problem: why the expression can't be read; "" = it can. */
export interface Pattern { key: string; problem: string; spanOf: (text: string) => [number, number] | undefined; isIn: (text: string) => boolean }

export function patternOf(text: string, isRegex: boolean): Pattern {
  const key = `${isRegex ? "r" : "t"} ${text}`;
  if (!isRegex) {
    const wanted = text.toLowerCase();
    return {
      key, problem: "", isIn: (one) => one.toLowerCase().includes(wanted),
      spanOf: (one) => {
        const at = one.toLowerCase().indexOf(wanted);
        return at < 0 ? undefined : [at, at + text.length];
      },
    };
  }
  try {
    const expression = new RegExp(text, "i");
    const spanOf = (one: string): [number, number] | undefined => {
      const match = expression.exec(one);
      return match ? [match.index, match.index + match[0].length] : undefined;
    };
    return { key, problem: "", spanOf, isIn: (one) => expression.test(one) };
  } catch (error) {
    return { key, problem: String((error as Error).message).replace(/^Invalid regular expression: /, ""), spanOf: () => undefined, isIn: () => false };
  }
}

const PART = /^(\d{1,9})(?:-(\d{1,9}))?$/;

/** `0-3,7` as ranges; undefined where it isn't like this. "" = none. */
export function rangesIn(text: string): [number, number][] | undefined {
  const parts = text.split(",").map((part) => part.trim()).filter(Boolean);
  const ranges = parts.map((part) => PART.exec(part)).map((match) => match && ([Number(match[1]), Number(match[2] ?? match[1])] as [number, number]));
  return ranges.every((one) => one && one[0] <= one[1]) ? (ranges as [number, number][]) : undefined;
}

export const isWithin = (ranges: [number, number][], number: number): boolean => ranges.some(([from, to]) => from <= number && number <= to);
