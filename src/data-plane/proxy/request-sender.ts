import http from "node:http";
import { type Duplex, duplexPair } from "node:stream";
import { Fault } from "../../base/fault.ts";
import { giveSocket } from "../../base/node/injected-sockets.ts";
import type { ProxyAnswer, ProxyRequest, SendToProvider } from "../../broker/traffic/send-to-provider.ts";
import { mistakeInPath } from "../../core/outgoing/provider-path.ts";
import { requireSingle } from "../server/heads.ts";
import type { ProviderProxy } from "./proxy.ts";
import type { NotableCall } from "./proxy-call.ts";

/** What a server can parse as a path. Whether it may be sent is decided where every proxied request is judged. */
const isTarget = /^\/[\x21-\x7e]*$/;
const maxBodyBytes = 1024 * 1024;
const maxMs = 30_000;
/** A request that waits longer for an approval is answered with what it waits for. */
const maxWaitMs = 20_000;
/** Several at once share the room of all proxied requests; so do these, which hold their bodies in memory. */
const maxAtOnce = 16;
/** With more at once, a request does not wait for an approval: held requests must not take the room of all others. */
const maxWaiting = 8;

/** Each request runs through `node:http` and the general lane, over a pair of streams in memory. */
export function createRequestSender(proxy: ProviderProxy): SendToProvider {
  /** By the server's side of their streams. */
  const waiting = new WeakMap<Duplex, SentRequest>();
  let made: http.Server | undefined;
  let open = 0;

  function createServer(): http.Server {
    return http.createServer({ requireHostHeader: false }, (request, response) => {
      waiting.get(request.socket)?.begin(request, response);
    });
  }

  /** Opens a new connection for one request. */
  function connectTo(sent: SentRequest): Duplex {
    made ??= createServer();
    const [here, there] = duplexPair();
    waiting.set(there, sent);
    giveSocket(made, there);
    return here;
  }

  return async (request) => {
    if (open === maxAtOnce) throw new Fault("too_many_requests", `at most ${maxAtOnce} requests are sent at once`);
    open += 1;
    try {
      const sent = new SentRequest(proxy, request, open <= maxWaiting ? maxWaitMs : 0);
      return await sent.answer(connectTo);
    } finally {
      open -= 1;
    }
  };
}

/** One request and its response. */
class SentRequest {
  readonly #proxy: ProviderProxy;
  readonly #request: ProxyRequest;
  readonly #longestWaitMs: number;
  readonly #since = performance.now();
  #call: NotableCall | undefined;
  #fault: Fault | undefined;

  constructor(proxy: ProviderProxy, request: ProxyRequest, longestWaitMs: number) {
    this.#longestWaitMs = longestWaitMs;
    this.#proxy = proxy;
    this.#request = request;
  }

  /** Hands the server's side to the proxy. */
  begin(request: http.IncomingMessage, response: http.ServerResponse): void {
    const { caller, ref, message } = this.#request;
    response.on("close", () => {
      const status = response.headersSent ? response.statusCode : 0;
      if (this.#call !== undefined) this.#proxy.leave(this.#call, status, performance.now());
    });
    this.#call = this.#proxy.handle({
      request,
      response,
      proceed: () => {},
      answerFault: (fault) => {
        this.#fault = fault;
        response.writeHead(fault.status, { "latchkey-error": fault.code }).end();
      },
      isLast: () => true,
      onEndless: () => {},
      alias: ref,
      caller: { ...caller, environment: ref.environment },
      message,
      longestWaitMs: this.#longestWaitMs,
    });
  }

  async answer(connectTo: (sent: SentRequest) => Duplex): Promise<ProxyAnswer> {
    const { method, path, headers, body, signal } = this.#request;
    requirePlain(headers);
    // The server in memory would answer a path that it cannot parse, as if the provider had.
    const mistake = isTarget.test(path) ? undefined : mistakeInPath(path);
    if (mistake !== undefined) throw new Fault("invalid_path", mistake);
    const deadline = AbortSignal.timeout(maxMs);
    const request = requestWith({
      method,
      path,
      headers: [...headers, ...lengthOf(method, body)],
      createConnection: () => connectTo(this),
      signal,
    });
    const late = () => request.destroy(tooLate());
    deadline.addEventListener("abort", late);
    try {
      request.end(body);
      const response = await answerOf(request);
      const { content, isTruncated } = await contentOf(response);
      const relayed = this.#call?.relayed;
      return {
        status: response.statusCode ?? 0,
        headers: this.#fault === undefined ? endToEnd(response.rawHeaders) : [],
        body: content,
        isTruncated,
        fault: this.#fault,
        totalMs: performance.now() - this.#since,
        addedMs: (relayed?.addedMicros ?? 0) / 1_000,
        attempts: relayed?.sends ?? 0,
      };
    } finally {
      deadline.removeEventListener("abort", late);
      request.destroy();
    }
  }
}

/** Methods for which Node sends no body where there is none; with others it sends an empty one of unknown length. */
const withoutBody = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE", "CONNECT"]);

const lengthOf = (method: string, { length }: Uint8Array): string[] =>
  length === 0 && withoutBody.has(method) ? [] : ["Content-Length", String(length)];

const tooLate = () => new Fault("provider_timeout", `the provider has not answered within ${maxMs / 1_000} seconds`);

/** Fields of the connection itself, which is not the caller's. */
const own = new Set([
  "connection",
  "content-length",
  "expect",
  "host",
  "keep-alive",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
]);

function requirePlain(headers: readonly string[]): void {
  const refused = headers.find((name, i) => i % 2 === 0 && own.has(name.toLowerCase()));
  if (refused !== undefined) throw new Fault("invalid_headers", `the header ${refused} is set by Latchkey`);
  requireSingle(headers);
}

const endToEnd = (headers: readonly string[]): string[] =>
  headers.filter((_, i) => !own.has((headers[i - (i % 2)] ?? "").toLowerCase()) || isLength(headers[i - (i % 2)]));
const isLength = (name: string | undefined): boolean => name?.toLowerCase() === "content-length";

/** Node refuses what cannot be written as a request. */
function requestWith(options: http.RequestOptions): http.ClientRequest {
  try {
    return http.request({ ...options, setHost: false });
  } catch (cause) {
    const isPath = (cause as NodeJS.ErrnoException).code === "ERR_UNESCAPED_CHARACTERS";
    throw isPath
      ? new Fault("invalid_path", "the path must be encoded: no spaces, and letters of other scripts as %XX", { cause })
      : new Fault("invalid_headers", "the names and values of headers must be plain text", { cause });
  }
}

function answerOf(request: http.ClientRequest): Promise<http.IncomingMessage> {
  return new Promise((resolve, reject) => {
    request.on("response", resolve);
    request.on("error", (error) => {
      reject(
        error instanceof Fault ? error : new Fault("provider_closed", "the response was cut off", { cause: error }),
      );
    });
  });
}

/** Reads the body up to the limit. A body that is cut off, or does not end, is returned as far as it came. */
async function contentOf(response: http.IncomingMessage): Promise<{ content: Uint8Array; isTruncated: boolean }> {
  const pieces: Buffer[] = [];
  let length = 0;
  try {
    for await (const piece of response as AsyncIterable<Buffer>) {
      const left = maxBodyBytes - length;
      pieces.push(piece.length > left ? piece.subarray(0, left) : piece);
      length += piece.length;
      if (length > maxBodyBytes) return { content: Buffer.concat(pieces), isTruncated: true };
    }
    return { content: Buffer.concat(pieces), isTruncated: false };
  } catch {
    return { content: Buffer.concat(pieces), isTruncated: true };
  }
}
