/** The lines that two texts have in common, and those of one alone. */

export interface Line { side: " " | "-" | "+"; text: string }

/** By the longest common subsequence; job files are short. */
export function differenceOf(one: string[], other: string[]): Line[] {
  const lengths = Array.from({ length: one.length + 1 }, () => new Uint16Array(other.length + 1));
  for (let i = one.length - 1; i >= 0; i -= 1) {
    for (let j = other.length - 1; j >= 0; j -= 1) {
      lengths[i]![j] = one[i] === other[j] ? lengths[i + 1]![j + 1]! + 1 : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!);
    }
  }
  const lines: Line[] = [];
  let [i, j] = [0, 0];
  while (i < one.length || j < other.length) {
    if (i < one.length && j < other.length && one[i] === other[j]) {
      lines.push({ side: " ", text: one[i]! });
      [i, j] = [i + 1, j + 1];
    } else if (j >= other.length || (i < one.length && lengths[i + 1]![j]! >= lengths[i]![j + 1]!)) lines.push({ side: "-", text: one[i++]! });
    else lines.push({ side: "+", text: other[j++]! });
  }
  return lines;
}
