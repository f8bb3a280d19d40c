import type { DescMethod } from "@bufbuild/protobuf";
import { Fault } from "../../base/fault.ts";
import { connectErrorOf } from "./errors.ts";
import { scopeOf } from "./method-scope.ts";

interface BodyDeadlineOptions {
  readonly method: DescMethod;
  /** The next bytes must come within this time; the whole body too, where the caller needs no key. */
  readonly bodyMs: number;
}

/**
 * The body of a request, with a deadline for a caller that stops sending. A call with one request message ends with
 * `request_timeout` when no byte comes for that long. A stream of messages from a caller with a key may be silent; a
 * stream from a caller without a key may not.
 */
export function boundBody(
  body: AsyncIterable<Uint8Array>,
  { method, bodyMs }: BodyDeadlineOptions,
): AsyncIterable<Uint8Array> {
  const hasOneMessage = method.methodKind === "unary" || method.methodKind === "server_streaming";
  const isOpenToAll = scopeOf(method) === undefined;
  if (!hasOneMessage && !isOpenToAll) return body;
  const endsMs = hasOneMessage && isOpenToAll ? performance.now() + bodyMs : Number.POSITIVE_INFINITY;
  return {
    [Symbol.asyncIterator]() {
      const chunks = body[Symbol.asyncIterator]();
      return {
        next: () => within(() => chunks.next(), Math.min(bodyMs, endsMs - performance.now())),
        return: async () => (await chunks.return?.()) ?? { done: true, value: undefined },
      };
    },
  };
}

/** Only the time is counted in which bytes are waited for. */
function within<T>(next: () => Promise<T>, forMs: number): Promise<T> {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => {
      // Bytes that came while the process stood still are read first.
      setImmediate(() =>
        reject(connectErrorOf(new Fault("request_timeout", "the request body did not arrive in time"))),
      );
    }, forMs);
    next()
      .finally(() => clearTimeout(late))
      .then(resolve, reject);
  });
}
