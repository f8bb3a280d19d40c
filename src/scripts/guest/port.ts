/** The only way out of the sandbox: takes text, and returns text or nothing. */
export type Host = (op: string, a: string, b: string) => string | undefined;

/** Removed from the global object before a customer's code is loaded. */
const place = globalThis as unknown as { __host?: Host };
const given = place.__host;
delete place.__host;
if (given === undefined) throw new Error("there is no host");
export const host: Host = given;

/** Limits checked inside the sandbox; the host enforces them as well. */
export interface GuestLimits {
  readonly toolCallsAtOnce: number;
  readonly toolBytes: number;
  readonly outputBytes: number;
  readonly logLines: number;
  readonly logLineBytes: number;
}

export let limits: GuestLimits = { toolCallsAtOnce: 0, toolBytes: 0, outputBytes: 0, logLines: 0, logLineBytes: 0 };
export function setLimits(next: GuestLimits): void {
  limits = next;
}

interface PendingCall {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: Error) => void;
  /** Stack of the call, since the response has no frame of the script. */
  readonly at: string | undefined;
}

const pendingCalls = new Map<string, PendingCall>();
const queue: (() => void)[] = [];
let pending = 0;
let calls = 0;

/** Calls the host with arguments as JSON text; calls beyond the concurrency limit are queued. */
export function callWithText(tool: string, text: string): Promise<unknown> {
  if (text.length > limits.toolBytes) {
    throw Object.assign(new Error(`the arguments of nango.${tool} must be at most ${limits.toolBytes} bytes`), {
      code: "too_large",
    });
  }
  const at = new Error().stack;
  return new Promise((resolve, reject) => {
    function send(): void {
      pending += 1;
      calls += 1;
      const id = String(calls);
      pendingCalls.set(id, { resolve, reject, at });
      host("call", `${id}:${tool}`, text);
    }
    if (pending < limits.toolCallsAtOnce) send();
    else queue.push(send);
  });
}

export const call = (tool: string, ...args: readonly unknown[]): Promise<unknown> =>
  callWithText(tool, JSON.stringify(args));

/** Handles a response: `{"ok":true,"value":…}` or `{"ok":false,"code":…,"message":…,"details":…}`. */
export function answer(id: string, text: string): void {
  const one = pendingCalls.get(id);
  if (one === undefined) return;
  pendingCalls.delete(id);
  pending -= 1;
  queue.shift()?.();
  const { ok, value, code, message, details } = JSON.parse(text) as Record<string, unknown>;
  if (ok === true) one.resolve(value);
  else one.reject(failure(String(code), String(message), details, one.at));
}

/** Details of tool failures from the host, where the script cannot change them, unlike those on the error. */
const failures = new WeakMap<object, Readonly<Record<string, unknown>>>();
export const detailsOf = (error: object): Readonly<Record<string, unknown>> | undefined => failures.get(error);

function failure(code: string, message: string, details: unknown, at: string | undefined): Error {
  const error = new Error(message);
  failures.set(error, (details ?? {}) as Record<string, unknown>);
  for (const [name, value] of Object.entries((details ?? {}) as Record<string, unknown>)) {
    if (name !== "message" && name !== "stack") Object.defineProperty(error, name, { value, ...open });
  }
  Object.defineProperty(error, "code", { value: code, ...open });
  Object.defineProperty(error, "stack", { value: at, writable: true, configurable: true });
  return error;
}

const open = { writable: true, configurable: true, enumerable: true } as const;
