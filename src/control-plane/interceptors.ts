import { type DescMessage, getOption, hasOption, type Message } from "@bufbuild/protobuf";
import { createValidator } from "@bufbuild/protovalidate";
import { Code, ConnectError, createContextKey, type Interceptor } from "@connectrpc/connect";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { type Access, type Caller, requireScope } from "../broker/access.ts";
import { faultOfStore } from "../broker/store-fault.ts";
import { scope } from "../gen/latchkey/v1/access_pb.ts";
import { connectErrorOf } from "./errors.ts";

/** Who asks. Set for every method that names a scope. */
export const callerKey = createContextKey<Caller | undefined>(undefined, { description: "the caller" });

/** Outermost: whatever was thrown leaves as an error with a code; what we did not foresee is logged and says nothing. */
export const translateFaults =
  ({ log, metrics }: World): Interceptor =>
  (next) =>
  async (request) => {
    const method = `${request.service.typeName}/${request.method.name}`;
    const translate = (thrown: unknown): ConnectError => {
      if (thrown instanceof ConnectError) return thrown;
      const fault = faultOfStore(thrown);
      if (fault.code === "internal") {
        metrics.unhandled.inc();
        log.error("a call failed unexpectedly", { method, err: fault.cause });
      }
      return connectErrorOf(fault);
    };
    const since = performance.now();
    const count = (code: string) => {
      metrics.rpcCalls.inc({ method, code });
      metrics.rpcSeconds.observe({ method }, (performance.now() - since) / 1_000);
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
      const translation = translate(error);
      count(codeOf(translation));
      throw translation;
    }
  };

/** A caller whose deadline has passed is told so at once. What was already being committed is committed whole, or not at all. */
async function unlessAborted<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  const reason = () => ConnectError.from(signal.reason, Code.Canceled);
  if (signal.aborted) throw reason();
  let stop = () => {};
  const aborted = new Promise<never>((_resolve, reject) => {
    stop = () => reject(reason());
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

/** Before there is a store to ask: all but health and reflection wait. */
export const refuseUntilReady: Interceptor = (next) => async (request) => {
  if (!hasOption(request.method, scope)) return next(request);
  throw new Fault("not_ready", "latchkey is starting", { retryAfterSeconds: 1 });
};

/** Methods say in the proto which scope they need. Those of health and reflection name none, and are open to all. */
export const requireKey =
  (access: Access): Interceptor =>
  (next) =>
  async (request) => {
    if (!hasOption(request.method, scope)) return next(request);
    const caller = access.authenticate(bearerOf(request.header));
    requireScope(caller, getOption(request.method, scope));
    request.contextValues.set(callerKey, caller);
    return next(request);
  };

export function bearerOf(header: Headers): string {
  const value = header.get("authorization");
  if (value === null) throw new Fault("missing_auth_header", "send a key: authorization: Bearer <key>");
  const [, secret] = /^Bearer ([\x21-\x7e]+)$/i.exec(value) ?? [];
  if (secret === undefined) throw new Fault("malformed_auth_header", "the authorization header must be: Bearer <key>");
  return secret;
}

/** Checks what the proto says of every request, before a method sees it. */
export function validateRequests(): Interceptor {
  const validator = createValidator();
  const requireValid = (schema: DescMessage, message: Message) => {
    const result = validator.validate(schema, message);
    if (result.kind === "valid") return;
    if (result.kind === "error")
      throw new Fault("internal", "the request could not be checked", { cause: result.error });
    const mistakes = result.violations.map((violation) => ({
      path: pathOf(violation.field),
      message: violation.message,
    }));
    throw new Fault("invalid_body", "the request is not valid", { mistakes });
  };
  return (next) => (request) => {
    if (!request.stream) {
      requireValid(request.method.input, request.message);
      return next(request);
    }
    const { message, method } = request;
    async function* checked() {
      for await (const one of message) {
        requireValid(method.input, one);
        yield one;
      }
    }
    return next({ ...request, message: checked() });
  };
}

type FieldPath = Parameters<typeof pathStep>[0][];

function pathStep(step: {
  readonly kind: string;
  readonly name?: string;
  readonly index?: number;
  readonly key?: unknown;
}): string {
  if (step.kind === "list_sub") return String(step.index);
  if (step.kind === "map_sub") return String(step.key);
  return step.name ?? step.kind;
}

const pathOf = (path: FieldPath): string[] => path.map(pathStep);
