/** Returns the known name that a mistyped name probably means; undefined if no name is close. */
export function similarTo(written: string, known: Iterable<string>): string | undefined {
  const most = Math.min(3, Math.max(1, Math.floor(written.length / 3)));
  let nearest: string | undefined;
  let least = most + 1;
  for (const name of known) {
    if (Math.abs(name.length - written.length) >= least) continue;
    const distance = distanceOf(written.toLowerCase(), name.toLowerCase());
    if (distance < least) [least, nearest] = [distance, name];
  }
  return nearest;
}

/** Returns `. Did you mean "name"?`, or an empty string. */
export function suggestion(written: string, known: Iterable<string>): string {
  const name = similarTo(written, known);
  return name === undefined ? "" : `. Did you mean "${name}"?`;
}

/** Returns `did you mean "name"?`, for the hint of an error; undefined if no name is close. */
export function hintOf(written: string, known: Iterable<string>): string | undefined {
  const name = similarTo(written, known);
  return name === undefined ? undefined : `did you mean "${name}"?`;
}

/** Counts the insertions, deletions, substitutions and swaps of neighbors that turn one name into the other. */
function distanceOf(a: string, b: string): number {
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const isSame = a[i - 1] === b[j - 1];
      let cost = Math.min((last[j] ?? 0) + 1, (row[j - 1] ?? 0) + 1, (last[j - 1] ?? 0) + (isSame ? 0 : 1));
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1])
        cost = Math.min(cost, (before[j - 2] ?? 0) + 1);
      row.push(cost);
    }
    [before, last] = [last, row];
  }
  return last[b.length] ?? 0;
}
