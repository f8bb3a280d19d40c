/** One system call of a trace that strace wrote with -f and -y. */
export interface SystemCall {
  readonly name: "sync" | "write";
  /** The file of the descriptor: a path, or `socket:[…]`. */
  readonly path: string;
  /** The written text, as strace escapes it, preceded by the end of the last write to it. */
  readonly text: string;
  /** Lines of the trace: they are in the order in which things happened. */
  readonly began: number;
  readonly ended: number;
}

/** Calls that failed are left out. */
export function readTrace(text: string): readonly SystemCall[] {
  const calls: SystemCall[] = [];
  const unfinished = new Map<string, { readonly line: string; readonly began: number }>();
  /** A full buffer can cut a name in two: the search includes the text written before. */
  const ends = new Map<string, string>();
  for (const [ended, line] of text.split("\n").entries()) {
    const [, pid = "", rest = ""] = /^(\d+) +(.*)$/s.exec(line) ?? [];
    const cut = /^(.*) <unfinished \.\.\.>$/s.exec(rest);
    if (cut !== null) {
      unfinished.set(pid, { line: cut[1] ?? "", began: ended });
      continue;
    }
    const resumed = /^<\.\.\. \w+ resumed>(.*)$/s.exec(rest);
    const start = resumed === null ? { line: "", began: ended } : unfinished.get(pid);
    const whole = `${start?.line ?? ""}${resumed?.[1] ?? rest}`;
    const [, name, path = "", written = "", result = "-1"] = /^(\w+)\(\d+<(.*?)>(.*)\) += (-?\d+)/s.exec(whole) ?? [];
    if (name === undefined || start === undefined || Number(result) < 0) continue;
    calls.push({
      name: name === "fsync" || name === "fdatasync" ? "sync" : "write",
      path,
      text: `${ends.get(path) ?? ""}${written}`,
      began: start.began,
      ended,
    });
    ends.set(path, written.replace(/", \d+$/, "").slice(-200));
  }
  return calls;
}
