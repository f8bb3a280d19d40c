import { once } from "node:events";
import http, { type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import { setTimeout as pause } from "node:timers/promises";
import type { ListenerTls } from "../../base/http/listener.ts";
import { tlsServerOptions } from "../../base/http/tls.ts";
import { parametersOf } from "./auth/clients.ts";
import { answerInstead, cut, reset, untilAborted } from "./auth/misstep.ts";
import type { Behaviour, Misstep } from "./behaviour.ts";
import { apiError, type Call, type SandboxAnswer, SandboxRefusal } from "./call.ts";
import { isKnown, type SandboxEndpoint } from "./endpoints.ts";
import { createRouter, type RouteMatch, type SandboxRoute } from "./router.ts";
import type { SandboxTraffic } from "./seen.ts";

interface ServerOptions {
  readonly routes: readonly SandboxRoute[];
  readonly behaviour: Behaviour;
  readonly seen: SandboxTraffic;
  readonly tls: ListenerTls | undefined;
  /** Receives unexpected errors. */
  readonly onError: (error: unknown) => void;
}

const bodyLimit = 1_048_576;
const lingerMs = 2_000;
/** Longer than any upload here takes, so that a misbehaving client is cut off at some time. */
const requestMs = 600_000;

/** The listener: reads a request, calls its route, and misbehaves as configured. */
export function createSandboxServer({ routes, behaviour, seen, tls, onError }: ServerOptions): http.Server {
  const find = createRouter(routes);

  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = "GET", url: target = "/", headers } = request;
    const { path, query } = partsOf(target);
    const found = find(method, path);
    const endpoint: SandboxEndpoint = found.kind === "route" ? found.route.endpoint : "unknown";
    const entry = seen.arrived({ endpoint, method, target, headers });
    // Closing the sandbox closes every connection, and so aborts this signal too.
    const gone = new AbortController();
    response.once("close", () => gone.abort("the connection is closed"));
    const { signal } = gone;
    // Recorded before the last byte leaves: a client that has the answer may ask what was seen.
    const record = (outcome: string) => {
      entry.outcome(outcome);
    };

    if (isKnown(endpoint) && behaviour.resetsBeforeReading(endpoint)) {
      record("reset-before-reading");
      reset(response);
      return;
    }
    const limit = found.kind === "route" ? (found.route.bodyLimit ?? bodyLimit) : bodyLimit;
    const body = await readBody(request, limit);
    if (body === undefined) {
      // Reads the rest for a while before it answers: a reset would lose the answer for a client that still writes.
      request.resume();
      await Promise.race([once(request, "end", { signal }), pause(lingerMs, undefined, { signal, ref: false })]);
      record("413");
      const tooLarge = apiError(413, "uploadTooLarge", `The body is larger than ${limit} bytes.`, {
        connection: "close",
      });
      return send(response, tooLarge, signal);
    }
    entry.body(body);
    const params = found.kind === "route" ? found.params : {};
    const call: Call = { method, target, params, query, headers, body };
    const misstep = isKnown(endpoint) ? behaviour.next(endpoint, grantTypeOf(endpoint, call)) : undefined;
    if (misstep?.delayMs) await pause(misstep.delayMs, undefined, { signal });
    const answer = await actOn(call, found, misstep);
    if (misstep?.holdMs) await pause(misstep.holdMs, undefined, { signal });
    switch (misstep?.kind) {
      case "silent":
        record("silent");
        return untilAborted(signal);
      case "reset-before-reading":
      case "reset-after-reading":
      case "drop-answer":
        record(misstep.kind);
        return reset(response);
      case "cut-answer":
        record(misstep.kind);
        return cut(response, answer);
      default:
        record(String(answer.status));
        return send(response, answer, signal).catch((error: unknown) => {
          if (!signal.aborted) throw error;
          record("left");
        });
    }
  }

  /** Returns the route's answer, or the configured one; then the route is not called. */
  async function actOn(call: Call, found: RouteMatch, misstep: Misstep | undefined): Promise<SandboxAnswer> {
    if (found.kind === "unknown") return apiError(404, "notFound", "No such route.");
    if (found.kind === "wrong-method") {
      return apiError(405, "methodNotAllowed", "This route does not support the method.", {
        allow: found.allow.join(", "),
      });
    }
    const { endpoint } = found.route;
    const instead = misstep === undefined || !isKnown(endpoint) ? undefined : answerInstead(misstep, endpoint);
    if (instead !== undefined) return instead;
    if (misstep !== undefined && doesNothing.has(misstep.kind)) return { status: 200 };
    try {
      return await found.route.answer(call);
    } catch (error) {
      if (error instanceof SandboxRefusal) return error.answer;
      throw error;
    }
  }

  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    // Errors of a client's connection are not defects of the sandbox.
    request.on("error", () => {});
    response.on("error", () => {});
    serve(request, response).catch((error: unknown) => {
      const hasLeft = response.destroyed || response.closed;
      if (!hasLeft) onError(error);
      response.destroy();
    });
  };
  const timeouts = { headersTimeout: 10_000, requestTimeout: requestMs };
  return tls === undefined
    ? http.createServer(timeouts, onRequest)
    : https.createServer({ ...timeouts, ...tlsServerOptions(tls) }, onRequest);
}

const doesNothing: ReadonlySet<Misstep["kind"]> = new Set(["silent", "reset-before-reading", "reset-after-reading"]);

function partsOf(target: string): { readonly path: string; readonly query: URLSearchParams } {
  const at = target.indexOf("?");
  const path = at === -1 ? target : target.slice(0, at);
  return { path, query: new URLSearchParams(at === -1 ? "" : target.slice(at + 1)) };
}

/** Returns undefined for a body above the limit. */
async function readBody(request: IncomingMessage, limit: number): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of request.iterator({ destroyOnReturn: false })) {
    // Without an encoding set, a request is read as bytes.
    const bytes = chunk as Buffer;
    length += bytes.length;
    if (length > limit) return undefined;
    chunks.push(bytes);
  }
  return Buffer.concat(chunks);
}

function grantTypeOf(endpoint: SandboxEndpoint, call: Call): string | undefined {
  if (endpoint !== "token") return undefined;
  try {
    return parametersOf(call).get("grant_type") ?? undefined;
  } catch {
    /* The route refuses a malformed body. */
    return undefined;
  }
}

async function send(
  response: ServerResponse,
  { status, headers = {}, body, pieces }: SandboxAnswer,
  signal: AbortSignal,
): Promise<void> {
  if (pieces === undefined) {
    const bytes = Buffer.from(body ?? "");
    const length = status === 204 || status === 304 ? {} : { "content-length": bytes.length };
    response.writeHead(status, { ...headers, ...length }).end(bytes);
    return;
  }
  response.writeHead(status, headers);
  response.flushHeaders();
  if (response.req.method === "HEAD") {
    response.end();
    return;
  }
  for await (const piece of pieces(signal)) {
    signal.throwIfAborted();
    if (!response.write(piece)) await once(response, "drain", { signal });
  }
  response.end();
}
