/**
 * The inside of the sandbox: everything that exists before a customer's code is loaded, and the calls that the host can
 * make. It runs only in the engine.
 */
import { ActionError, createAction, createOnEvent, createSync } from "../sdk.ts";
import { Buffer } from "./buffer.ts";
import { describe } from "./describe.ts";
import { report } from "./failure.ts";
import { addGlobals } from "./globals.ts";
import { createNango, type Facts } from "./nango.ts";
import { answer, type GuestLimits, host, setLimits } from "./port.ts";
import { nodeCrypto, seedMathRandom } from "./random.ts";
import { isNothing, SchemaError, validate } from "./schemas.ts";
import { fire } from "./timers.ts";
import { URL, URLSearchParams } from "./url.ts";

interface Definition {
  readonly type: string;
  readonly metadata?: unknown;
  readonly input?: unknown;
  readonly output?: unknown;
  exec(nango: object, input?: unknown): unknown;
  onWebhook?(nango: object, payload: unknown): unknown;
}

interface Start {
  readonly entry: "exec" | "onWebhook";
  readonly input?: unknown;
  readonly facts: Facts;
  readonly limits: GuestLimits;
}

const inside = globalThis as unknown as {
  /** The exports of the bundle. */
  __script?: { default?: unknown };
  __latchkey?: object;
  __enter?: typeof enter;
};

addGlobals();
/** The modules behind the names that are not packages. */
Object.defineProperty(inside, "__latchkey", {
  value: Object.freeze({
    sdk: { createSync, createAction, createOnEvent, ActionError },
    crypto: nodeCrypto,
    url: { URL, URLSearchParams },
    buffer: { Buffer },
  }),
});
inside.__enter = enter;

function enter(op: string, a: string, b: string): string | undefined {
  if (op === "describe") return JSON.stringify(describe(inside.__script?.default));
  if (op === "start") start(JSON.parse(a) as Start);
  else if (op === "answer") answer(a, b);
  else if (op === "fire") fire(Number(a));
  return undefined;
}

function start({ entry, input, facts, limits }: Start): void {
  setLimits(limits);
  seedMathRandom();
  run(entry, input, facts).then(
    (output) => done(output, limits),
    (thrown) => failed(thrown),
  );
}

async function run(entry: "exec" | "onWebhook", input: unknown, facts: Facts): Promise<unknown> {
  // The script was validated when its file was loaded.
  const script = inside.__script?.default as Definition;
  const nango = createNango(facts, script.metadata, script.type === "sync");
  if (entry === "onWebhook") return await script.onWebhook?.(nango, input);
  if (script.type !== "action") return await script.exec(nango);
  const given = await validate(input, script.input);
  if (!given.ok) throw new SchemaError("invalid_input", "input", given.problems);
  const output = await script.exec(nango, given.data);
  if (isNothing(script.output)) return output;
  const made = await validate(output, script.output);
  if (!made.ok) throw new SchemaError("invalid_output", "output", made.problems);
  return output;
}

function done(output: unknown, { outputBytes }: GuestLimits): void {
  try {
    const text = JSON.stringify(output) ?? "";
    if (text.length > outputBytes) host("end", "failed", tooLarge(outputBytes));
    else host("end", "done", text);
  } catch (thrown) {
    failed(thrown);
  }
}

const tooLarge = (most: number) =>
  JSON.stringify({ code: "output_too_large", message: `the output is larger than ${most} bytes`, stack: "" });

function failed(thrown: unknown): void {
  let text: string;
  try {
    text = JSON.stringify(report(thrown));
  } catch {
    // An error that throws when read, or whose payload is not JSON.
    text = JSON.stringify({ code: "script_error", message: "the thrown error cannot be read", stack: "" });
  }
  host("end", "failed", text);
}
