import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type HandlerContext, type Interceptor } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Hints } from "../../broker/hints.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import { connectErrorOf, nameError } from "./errors.ts";
import { callerKey, type Gate } from "./gate.ts";

/**
 * Converts any thrown value to an error with a code; unexpected errors are logged, and reveal nothing to the caller.
 */
const translator =
  ({ log, metrics }: World, method: DescMethod) =>
  (thrown: unknown): ConnectError => {
    if (thrown instanceof ConnectError) return thrown;
    if (isAbort(thrown)) return new ConnectError("the caller has left", Code.Canceled);
    const fault = faultOfStore(thrown);
    if (fault.code === "internal") {
      metrics.unhandled.inc();
      log.error("a call failed unexpectedly", { method: nameOf(method), err: fault.cause });
    }
    return connectErrorOf(fault);
  };

const isAbort = (thrown: unknown) => thrown instanceof DOMException && thrown.name === "AbortError";
const nameOf = ({ parent, name }: DescMethod) => `${parent.typeName}/${name}`;

/** Combines gates, and converts their faults to errors with a code. */
export const translateGates =
  (world: World, gates: readonly Gate[]): Gate =>
  async (context) => {
    nameErrors(context);
    try {
      for (const gate of gates) await gate(context);
    } catch (error) {
      const translation = translator(world, context.method)(error);
      world.metrics.rpcCalls.inc({ method: nameOf(context.method), code: Code[translation.code] });
      throw translation;
    }
  };

/**
 * Names the library's errors. The library aborts a call with its error before writing it: the only place where all its
 * errors pass.
 */
function nameErrors({ signal, method }: HandlerContext): void {
  const name = () => {
    if (signal.reason instanceof ConnectError) nameError(signal.reason, method.input);
  };
  if (signal.aborted) name();
  else signal.addEventListener("abort", name, { once: true });
}

/** The outermost interceptor: converts any thrown value to an error with a code, and counts every call. */
export const translateFaults =
  (world: World, hints?: Hints): Interceptor =>
  (next) =>
  async (request) => {
    const method = nameOf(request.method);
    const translate = translator(world, request.method);
    const since = performance.now();
    const count = (code: string) => {
      world.metrics.rpcCalls.inc({ method, code });
      world.metrics.rpcSeconds.observe({ method }, (performance.now() - since) / 1_000);
    };
    const codeOf = ({ code }: ConnectError) => Code[code];
    try {
      const response = request.stream ? await next(request) : await unlessAborted(request.signal, () => next(request));
      if (!response.stream) {
        count("Ok");
        return response;
      }
      return {
        ...response,
        message: translated(response.message, { translate, onEnd: (error) => count(error ? codeOf(error) : "Ok") }),
      };
    } catch (error) {
      if (error instanceof Fault) await hints?.add(error, request.contextValues.get(callerKey));
      const translation = translate(error);
      count(codeOf(translation));
      throw translation;
    }
  };

/** Fails at once when the caller's deadline passes. A commit under way is still applied as a whole, or not at all. */
async function unlessAborted<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  if (signal.aborted) throw signal.reason;
  let stop = () => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(signal.reason);
    signal.addEventListener("abort", stop, { once: true });
  });
  try {
    return await Promise.race([run(), aborted]);
  } finally {
    signal.removeEventListener("abort", stop);
  }
}

interface Translation {
  readonly translate: (thrown: unknown) => ConnectError;
  readonly onEnd: (error: ConnectError | undefined) => void;
}

async function* translated<T>(messages: AsyncIterable<T>, { translate, onEnd }: Translation): AsyncIterable<T> {
  let error: ConnectError | undefined;
  try {
    yield* messages;
  } catch (thrown) {
    error = translate(thrown);
    throw error;
  } finally {
    onEnd(error);
  }
}
