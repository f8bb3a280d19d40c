import type { DescMethod } from "@bufbuild/protobuf";
import { Code, ConnectError, type ContextValues, type Interceptor } from "@connectrpc/connect";
import { Fault } from "../../base/fault.ts";
import { onBeat } from "../../base/loop/beat.ts";

interface StreamsOptions {
  /** Aborts when the port drains. */
  readonly shutdown: AbortSignal;
  /** Rejects when the caller may no longer call the method. */
  readonly authorize: (call: {
    readonly method: DescMethod;
    readonly header: Headers;
    readonly values: ContextValues;
  }) => Promise<unknown>;
}

/** Maximum time for which a revoked key still receives events. */
const recheckEveryMs = 500;

/**
 * Ends streams, which outlive the check of their head, with a reason: when the deadline passes, the key is revoked, or
 * the port drains. From then on, no more messages are accepted from the caller; those already accepted are completed.
 */
export const endStreams =
  ({ shutdown, authorize }: StreamsOptions): Interceptor =>
  (next) =>
  async (request) => {
    if (!request.stream) return next(request);
    const { method, header, signal: left, contextValues: values } = request;
    const over = new AbortController();
    const onLeft = () => over.abort(left.reason);
    const onShutdown = () =>
      over.abort(new Fault("not_ready", "Latchkey is stopping; try another replica", { retryAfterSeconds: 1 }));
    const endRechecks = onBeat(recheckEveryMs, () => {
      authorize({ method, header, values }).catch((error: unknown) => over.abort(error));
    });
    const settle = () => {
      endRechecks();
      left.removeEventListener("abort", onLeft);
      shutdown.removeEventListener("abort", onShutdown);
    };
    left.addEventListener("abort", onLeft);
    shutdown.addEventListener("abort", onShutdown);
    if (left.aborted) onLeft();
    if (shutdown.aborted) onShutdown();
    const { signal } = over;
    const message = method.methodKind === "bidi_streaming" ? taken(request.message, signal) : request.message;
    try {
      const response = await next({ ...request, signal, message });
      if (!response.stream) throw new Error("a stream is answered by a stream");
      return { ...response, message: told(response.message, { signal, settle }) };
    } catch (error) {
      settle();
      throw error;
    }
  };

interface StreamEnd {
  readonly signal: AbortSignal;
  readonly settle: () => void;
}

/** Yields the messages of a stream and, if the stream was ended early, throws the reason. */
async function* told<T>(messages: AsyncIterable<T>, { signal, settle }: StreamEnd): AsyncIterable<T> {
  try {
    yield* messages;
    if (signal.aborted) throw signal.reason;
  } finally {
    settle();
  }
}

/** Yields the caller's messages until the stream is ended. */
async function* taken<T>(messages: AsyncIterable<T>, signal: AbortSignal): AsyncIterable<T> {
  const iterator = messages[Symbol.asyncIterator]();
  let stop = () => {};
  const onAbort = () => stop();
  signal.addEventListener("abort", onAbort);
  try {
    while (!signal.aborted) {
      // Not a race with a long-lived promise: every message would leave a reaction in it.
      const next = await new Promise<IteratorResult<T> | undefined>((resolve, reject) => {
        stop = () => resolve(undefined);
        iterator.next().then(resolve, reject);
      });
      if (next === undefined || next.done === true) return;
      yield next.value;
    }
  } catch (error) {
    if (error instanceof ConnectError) throw error;
    // Errors that do not come from the protocol come from the connection.
    throw new ConnectError("the caller has left", Code.Canceled, undefined, undefined, error);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}
