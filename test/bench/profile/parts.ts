/** Where a thread was when it was sampled. */
export const parts = [
  "kernel",
  "JavaScript, compiled",
  "Node and V8: built-in functions",
  "Node and V8: other code",
  "garbage collection, main thread",
  "V8's other threads",
  "libraries",
] as const;
export type Part = (typeof parts)[number];

export const systemCalls = ["write", "read", "epoll", "other calls"] as const;
export type SystemCall = (typeof systemCalls)[number];

export interface Samples {
  readonly samples: number;
  readonly ofPart: Readonly<Record<Part, number>>;
  /** The samples of the part `kernel`, by what was called. */
  readonly ofCall: Readonly<Record<SystemCall, number>>;
}

/** Reads what `perf script -F comm,ip,sym,dso` prints: a block for each sample, the innermost frame first. */
export function partsOf(script: string): Samples {
  const ofPart = Object.fromEntries(parts.map((part) => [part, 0])) as Record<Part, number>;
  const ofCall = Object.fromEntries(systemCalls.map((call) => [call, 0])) as Record<SystemCall, number>;
  let samples = 0;
  for (const block of script.split("\n\n")) {
    const [thread = "", ...frames] = block.trim().split("\n");
    const [innermost] = frames;
    if (innermost === undefined) continue;
    samples += 1;
    const part = partOf(thread.trim(), innermost, frames);
    ofPart[part] += 1;
    if (part === "kernel") ofCall[callOf(frames)] += 1;
  }
  return { samples, ofPart, ofCall };
}

const collection =
  /Scaveng|Mark(ing|Compact)|Sweep|IterateAndScavenge|v8::internal::(Heap|GCTracer|NewSpace|SemiSpace)/;

function partOf(thread: string, innermost: string, frames: readonly string[]): Part {
  if (/V8Worker|DelayedTask/.test(thread)) return "V8's other threads";
  if (innermost.includes("[kernel") || innermost.includes("([guest")) return "kernel";
  if (frames.some((frame) => collection.test(frame))) return "garbage collection, main thread";
  if (/\/(node|nginx)\)$/.test(innermost)) {
    return / Builtins_/.test(innermost) ? "Node and V8: built-in functions" : "Node and V8: other code";
  }
  return /perf-\d+\.map|\[unknown\]|\/\/anon|\[JIT\]|memfd/.test(innermost) ? "JavaScript, compiled" : "libraries";
}

function callOf(frames: readonly string[]): SystemCall {
  const has = (pattern: RegExp) => frames.some((frame) => pattern.test(frame));
  if (has(/ (ksys_write|do_writev|__sys_send\w*) /)) return "write";
  if (has(/ (ksys_read|do_readv|__sys_recv\w*) /)) return "read";
  return has(/ do_epoll_\w+ /) ? "epoll" : "other calls";
}
