import { createHash, createHmac, getHashes, randomBytes } from "node:crypto";
import type { ScriptLimits, ScriptLine } from "../core/scripts/script.ts";
import { type Engine, type Machine, MachineError, type MachineHost, type Picture } from "./engine.ts";
import type { RawFailure, ToolCall } from "./messages.ts";

/** A run in a machine of its own, whose limits are enforced from outside. */
export interface MachineRun {
  begin(start: string): void;
  answer(call: string, text: string): void;
  /** Ends the run, whatever it is doing. */
  drop(): void;
}

export interface RunEvents {
  /** Called before and after each time the machine runs on the thread. */
  entered(): void;
  left(): void;
  calls(calls: readonly ToolCall[]): void;
  lines(lines: readonly ScriptLine[]): void;
  done(text: string): void;
  failed(failure: RawFailure): void;
}

/** Size limit of a call's arguments, which the proxy's thread parses. */
export const toolBytes = 8 * 1_024 * 1_024;
/** Limit of logged bytes. The proxy's thread receives all of them, and keeps 32 KiB. */
const mostLogged = 1_024 * 1_024;
/** Maximum number of calls from a machine to its host. */
const mostSmallThings = 10_000_000;

interface MachineRunOptions {
  readonly engine: Engine;
  readonly picture: Picture;
  readonly limits: ScriptLimits;
  readonly events: RunEvents;
}

export async function openRun({ engine, picture, limits, events }: MachineRunOptions): Promise<MachineRun> {
  const began = performance.now();
  const timers = new Map<string, NodeJS.Timeout>();
  let [calls, underWay, lines, logged, small] = [0, 0, 0, 0, 0];
  let outgoing: ToolCall[] = [];
  let written: ScriptLine[] = [];
  let stretchBegan = 0;
  let isOver = false;
  let isInside = false;
  /** The exceeded limit; once set, nothing inside continues. */
  let beyond: RawFailure | undefined;

  const stop: Stop = (code, message, stack = "") => {
    beyond ??= { code, message, stack };
  };

  /** A machine without any memory cannot create its error, and throws null. */
  function failureIn(said: RawFailure): RawFailure {
    if (said.message !== "null" || !machine.lacksMemory()) return said;
    return { code: "memory", message: tooMuch(limits), stack: said.stack };
  }

  function noMoreLines(what: string): undefined {
    lines = limits.logLines + 1;
    written.push({ level: "warn", message: `more than ${what}: what comes after is left out` });
  }

  const ops: Readonly<Record<string, (a: string, b: string) => string | undefined>> = {
    call(about, text) {
      calls += 1;
      underWay += 1;
      if (calls > limits.toolCalls) stop("tool_calls", `more than ${limits.toolCalls} calls of tools`);
      // The sandbox queues calls itself; exceeding the limit here means bypassing that queue.
      else if (underWay > limits.toolCallsAtOnce)
        stop("tool_calls", `more than ${limits.toolCallsAtOnce} calls at once`);
      else if (text.length > toolBytes) stop("tool_calls", `a call with more than ${toolBytes} bytes`);
      else {
        const at = about.indexOf(":");
        outgoing.push({ id: about.slice(0, at), tool: about.slice(at + 1), text });
      }
      return undefined;
    },
    log(level, text) {
      lines += 1;
      if (lines > limits.logLines) return undefined;
      const message = clipped(String(JSON.parse(text)), limits.logLineBytes);
      logged += Buffer.byteLength(message);
      if (logged > mostLogged) return noMoreLines(`${mostLogged} bytes of lines`);
      written.push({ level: levels.find((one) => one === level) ?? "info", message });
      return undefined;
    },
    "log-full": () => (lines > limits.logLines ? undefined : noMoreLines(`${limits.logLines} lines`)),
    timer(id, ms) {
      if (timers.size >= 10_000) stop("busy", "more than 10,000 timers");
      else
        timers.set(
          id,
          setTimeout(
            () =>
              run(
                () => machine.enter("fire", id, ""),
                () => timers.delete(id),
              ),
            Number(ms),
          ),
        );
      return undefined;
    },
    untimer(id) {
      clearTimeout(timers.get(id));
      timers.delete(id);
      return undefined;
    },
    random: (count) => randomBytes(Math.min(Number(count) || 0, 65_536)).toString("hex"),
    url: (text) => urlParts(JSON.parse(text) as readonly (string | null | undefined)[]),
    digest: (about, data) => digest(JSON.parse(about) as { algorithm: string; key: string | null }, data),
    end(how, text) {
      if (isOver || beyond !== undefined) return undefined;
      if (Buffer.byteLength(text) > limits.outputBytes && how === "done") {
        stop("output_too_large", `the output is more than ${limits.outputBytes} bytes`);
        return undefined;
      }
      flush();
      over();
      if (how === "done") events.done(text);
      else events.failed(failureIn(JSON.parse(clipped(text, limits.outputBytes * 2)) as RawFailure));
      return undefined;
    },
  };

  const outside: MachineHost = {
    called(op, a, b) {
      small += 1;
      if (small > mostSmallThings) stop("tool_calls", "asks its host for something without end");
      if (beyond !== undefined || isOver) return undefined;
      try {
        return ops[op]?.(a, b);
      } catch (error) {
        // Text that the sandbox never writes: the script has changed the sandbox.
        stop("script_error", `the tools of the script were changed: ${error instanceof Error ? error.message : ""}`);
        return undefined;
      }
    },
    mustStop() {
      if (isOver || beyond !== undefined) return true;
      const at = performance.now();
      if (at - stretchBegan > limits.busyMs) stop("busy", `ran for ${limits.busyMs} ms without waiting for anything`);
      else if (at - began > limits.deadlineMs) stop("deadline", `took longer than ${limits.deadlineMs} ms`);
      return beyond !== undefined;
    },
  };

  const machine = await engine.restore(picture, limits, outside);
  const deadline = setTimeout(() => {
    stop("deadline", `took longer than ${limits.deadlineMs} ms`);
    judge();
  }, limits.deadlineMs);

  function over(): void {
    isOver = true;
    clearTimeout(deadline);
    for (const timer of timers.values()) clearTimeout(timer);
    timers.clear();
    // If the run ends from inside, the machine still runs for a moment, and is released later.
    if (!isInside) machine.release();
  }

  function flush(): void {
    if (written.length > 0) events.lines(written);
    written = [];
    if (outgoing.length > 0) events.calls(outgoing);
    outgoing = [];
  }

  function judge(): void {
    if (isOver || beyond === undefined) return;
    if (written.length > 0) events.lines(written);
    over();
    events.failed(beyond);
  }

  /** Runs the machine until it waits. */
  function run(step: () => void, before?: () => void): void {
    if (isOver) return;
    before?.();
    stretchBegan = performance.now();
    isInside = true;
    events.entered();
    try {
      step();
      while (!isOver && !outside.mustStop() && machine.settle()) {
        // Continues while promise jobs are pending.
      }
    } catch (error) {
      broke(error, machine, limits, stop);
    }
    events.left();
    isInside = false;
    if (isOver) {
      machine.release();
      return;
    }
    judge();
    if (isOver) return;
    flush();
    if (underWay === 0 && timers.size === 0) {
      if (machine.lacksMemory()) stop("memory", tooMuch(limits));
      stop(
        "script_error",
        "the script waits for something that cannot come: nothing that it has asked for is under way",
      );
      judge();
    }
  }

  return {
    begin: (start) => run(() => machine.enter("start", start, "")),
    answer(call, text) {
      underWay -= 1;
      run(() => machine.enter("answer", call, text));
    },
    drop: over,
  };
}

/** Handles an error from a machine: of the script, or of the machine itself. */
function broke(error: unknown, machine: Machine, limits: ScriptLimits, stop: Stop): void {
  if (error instanceof MachineError) {
    stop(error.message.includes("out of memory") ? "memory" : "script_error", error.message, error.inner);
  } else if (error instanceof RangeError) stop("script_error", "too many calls within calls");
  else if (machine.lacksMemory()) stop("memory", tooMuch(limits));
  else stop("host_error", `the engine gave up: ${error instanceof Error ? error.message : "for no reason"}`);
}

const tooMuch = ({ memoryBytes }: ScriptLimits): string => `needed more than ${memoryBytes} bytes`;

type Stop = (code: RawFailure["code"], message: string, stack?: string) => void;

const levels = ["debug", "info", "warn", "error"] as const;

function clipped(text: string, bytes: number): string {
  if (text.length * 3 <= bytes) return text;
  const all = Buffer.from(text);
  return all.length <= bytes
    ? text
    : all
        .subarray(0, bytes)
        .toString()
        .replace(/\uFFFD$/, "");
}

const settable = new Set([
  "href",
  "protocol",
  "username",
  "password",
  "host",
  "hostname",
  "port",
  "pathname",
  "search",
  "hash",
]);

/** Parses a URL, or changes a part of one; text in, text out. */
function urlParts([text, base, part, value]: readonly (string | null | undefined)[]): string | undefined {
  const url = URL.parse(text ?? "", base ?? undefined);
  if (url === null) return undefined;
  if (typeof part === "string" && settable.has(part)) {
    try {
      Object.assign(url, { [part]: value });
    } catch {
      // Only `href` throws; other parts keep their value.
      return undefined;
    }
  }
  const { href, origin, protocol, username, password, host, hostname, port, pathname, search, hash } = url;
  return JSON.stringify({
    href,
    origin,
    protocol,
    username,
    password,
    host,
    hostname,
    port,
    pathname,
    search,
    hash,
  });
}

const algorithms = new Set(getHashes().map((name) => name.toLowerCase()));

function digest({ algorithm, key }: { algorithm: string; key: string | null }, data: string): string | undefined {
  if (!algorithms.has(algorithm.toLowerCase())) return undefined;
  const bytes = Buffer.from(data, "base64");
  const made = key === null ? createHash(algorithm) : createHmac(algorithm, Buffer.from(key, "base64"));
  return made.update(bytes).digest("base64");
}
