export interface DiffLine {
  readonly kind: "same" | "removed" | "added";
  readonly text: string;
}

/** Limits the cells of the table: about 2,000 lines with 2,000. */
const mostCells = 4_000_000;

/** Returns the lines of both texts with the fewest changes; undefined if too much differs to find out. */
export function lineDiff(before: readonly string[], after: readonly string[]): readonly DiffLine[] | undefined {
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1;
  let [endBefore, endAfter] = [before.length, after.length];
  while (endBefore > start && endAfter > start && before[endBefore - 1] === after[endAfter - 1]) {
    endBefore -= 1;
    endAfter -= 1;
  }
  const changed = changesOf(before.slice(start, endBefore), after.slice(start, endAfter));
  if (changed === undefined) return undefined;
  return [...before.slice(0, start).map(same), ...changed, ...before.slice(endBefore).map(same)];
}

const same = (text: string): DiffLine => ({ kind: "same", text });

/** Follows the longest common subsequence. */
function changesOf(before: readonly string[], after: readonly string[]): readonly DiffLine[] | undefined {
  const width = after.length + 1;
  if ((before.length + 1) * width > mostCells) return undefined;
  // The length of the longest common subsequence of both rests.
  const lengths = new Uint16Array((before.length + 1) * width);
  const at = (i: number, k: number) => lengths[i * width + k] ?? 0;
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let k = after.length - 1; k >= 0; k -= 1) {
      lengths[i * width + k] = before[i] === after[k] ? at(i + 1, k + 1) + 1 : Math.max(at(i + 1, k), at(i, k + 1));
    }
  }
  const lines: DiffLine[] = [];
  let [i, k] = [0, 0];
  while (i < before.length || k < after.length) {
    const [left, right] = [before[i], after[k]];
    if (left !== undefined && left === right) {
      lines.push(same(left));
      i += 1;
      k += 1;
    } else if (left !== undefined && (right === undefined || at(i + 1, k) >= at(i, k + 1))) {
      lines.push({ kind: "removed", text: left });
      i += 1;
    } else {
      lines.push({ kind: "added", text: right ?? "" });
      k += 1;
    }
  }
  return lines;
}
