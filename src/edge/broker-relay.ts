import http, { type ClientRequest, type IncomingMessage, type RequestOptions } from "node:http";
import https from "node:https";
import { connect as connectTcp } from "node:net";
import type { Writable } from "node:stream";
import { connect as connectTls } from "node:tls";
import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { relayedField } from "../data-plane/server/authenticate-request.ts";
import type { DoorCall } from "../data-plane/server/door-call.ts";
import type { RouteRelay } from "../data-plane/server/relayed-routes.ts";
import { bodyOf, type FrontRequest, type FrontResponse } from "../relay/client/incoming.ts";
import { StreamRequest, StreamResponse } from "../relay/http2/stream-front.ts";
import { bodyStreamOf, bodyStreamTo } from "../relay/http2/stream-pipes.ts";
import type { BrokerTls } from "./follow-stream.ts";

interface BrokerRelayOptions {
  /** `http(s)://host:port` of the brokers' data listeners. */
  readonly urls: readonly string[];
  /** Certificates as they were last read. */
  readonly tls: () => BrokerTls;
  /** Ends a request during which nothing is sent or received for so long. */
  readonly idleMs: number;
  readonly world: World;
}

/** About one connection only: RFC 9110, section 7.6.1. */
const hopByHop = new Set([
  ...["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["host", "expect"],
]);

/** What is added to the fields of a request, by the framing of its body. */
const bodyFields = {
  none: [],
  length: ["expect", "100-continue"],
  chunked: ["transfer-encoding", "chunked", "expect", "100-continue"],
} as const;
/** A proxy between may not know `100 Continue`: then the body is sent all the same. */
const continueMs = 1_000;

/** Connections that are kept, by the certificates that they were opened with. */
function createAgents(tls: () => BrokerTls) {
  const plain = new http.Agent(keepAlive);
  let trust = tls();
  let secure = new https.Agent({ ...keepAlive, ...trust });
  const agents = new Set<http.Agent>([plain, secure]);

  /** Returns the agent with the certificates of now. Requests in progress keep the one before. */
  function of(url: URL): http.Agent {
    if (url.protocol === "http:") return plain;
    const now = tls();
    if (now === trust) return secure;
    trust = now;
    secure = new https.Agent({ ...keepAlive, ...trust });
    agents.add(secure);
    return secure;
  }

  return {
    of,
    destroy() {
      for (const agent of agents) agent.destroy();
    },
  };
}

/** Relays requests for everything but providers to the brokers' data listeners, without reading their bodies. */
export function createBrokerRelay({ urls, tls, idleMs, world }: BrokerRelayOptions): RouteRelay & { close(): void } {
  const agents = createAgents(tls);
  const { metrics } = world;

  interface RelayedRequest extends DoorCall {
    readonly fail: (fault: Fault) => void;
    /** Brokers that were not tried yet. */
    readonly rest: readonly URL[];
  }

  function attempt(relayed: RelayedRequest): void {
    const { request, response, proceed, fail, rest } = relayed;
    const [url, ...others] = rest;
    if (url === undefined) {
      metrics.edgeRelayed.inc({ answer: "latchkey" });
      fail(unreachable());
      return;
    }
    const body = bodyOf(request);
    const options: RequestOptions = {
      method: request.method ?? "GET",
      path: request.url ?? "/",
      headers: [...requestFields(request, url), ...bodyFields[body]],
      agent: agents.of(url),
      host: hostOf(url),
      port: url.port,
      timeout: idleMs,
    };
    const outgoing = (url.protocol === "https:" ? https : http).request(options);
    const onClose = () => outgoing.destroy();
    response.once("close", onClose);
    /** Nothing of the body was taken from the caller yet. */
    let isFresh = true;
    const begin = () => {
      if (!isFresh) return;
      isFresh = false;
      proceed();
      readableOf(request).pipe(outgoing);
    };
    outgoing.on("timeout", () => outgoing.destroy(new Error("nothing was sent for too long")));
    outgoing.on("error", () => {
      response.off("close", onClose);
      if (response.destroyed) return;
      if (response.headersSent) response.destroy();
      // A kept connection may have been closed at the same time: the request never arrived.
      else if (isFresh) attempt({ ...relayed, rest: outgoing.reusedSocket && body === "none" ? rest : others });
      else {
        metrics.edgeRelayed.inc({ answer: "latchkey" });
        fail(unreachable());
      }
    });
    outgoing.on("response", (answer) => {
      // Answered without its body, the request is over, and its connection can carry no other one.
      if (isFresh && body !== "none") answer.once("close", () => outgoing.destroy());
      isFresh = false;
      metrics.edgeRelayed.inc({ answer: `${Math.floor((answer.statusCode ?? 0) / 100)}xx` });
      passAnswer(answer, response);
    });
    if (body === "none") outgoing.end();
    else onceAwaited(outgoing, url, begin);
  }

  return {
    send(call, fail) {
      if (urls.length === 0) throw notRelayed();
      attempt({ ...call, fail, rest: inRandomOrder(urls) });
    },
    upgrade({ request, response, socket, early }, fail) {
      const [url] = inRandomOrder(urls);
      if (url === undefined) throw notRelayed();
      const port = Number(url.port || (url.protocol === "https:" ? 443 : 80));
      const target = { host: hostOf(url), port };
      const broker =
        url.protocol === "https:"
          ? connectTls({ ...target, ...tls(), ALPNProtocols: ["http/1.1"] })
          : connectTcp(target);
      let isJoined = false;
      broker.once("error", () => {
        if (isJoined) socket.destroy();
        else fail(unreachable());
      });
      socket.once("close", () => broker.destroy());
      broker.once("close", () => isJoined && socket.destroy());
      broker.once(connectedEvent(url), () => {
        isJoined = true;
        response.statusCode = 101;
        response.detachSocket(socket);
        broker.write(upgradeHead(request, url));
        if (early.length > 0) broker.write(early);
        socket.pipe(broker).pipe(socket);
      });
    },
    close() {
      agents.destroy();
    },
  };
}

/** Below the five seconds after which Node's own servers close idle connections. */
const keepAlive = { keepAlive: true, keepAliveMsecs: 4_000, timeout: 4_000, maxFreeSockets: 16 };

/**
 * Begins the body once a broker waits for it: a connection that was kept may just have been closed at the other side,
 * and then another broker can be tried.
 */
function onceAwaited(outgoing: ClientRequest, url: URL, begin: () => void): void {
  let late: NodeJS.Timeout | undefined;
  const wait = () => {
    late = setTimeout(begin, continueMs);
  };
  outgoing.once("continue", begin);
  outgoing.once("socket", (socket) => (socket.connecting ? socket.once(connectedEvent(url), wait) : wait()));
  for (const event of ["response", "error", "close"]) outgoing.once(event, () => clearTimeout(late));
}

const connectedEvent = ({ protocol }: URL): string => (protocol === "https:" ? "secureConnect" : "connect");

const hostOf = ({ hostname }: URL): string => hostname.replace(/^\[(.*)\]$/, "$1");

const unreachable = (): Fault =>
  Fault.withoutStack("brokers_unavailable", "no broker answers, and an edge relays this request to one", {
    retryAfterSeconds: 1,
  });

const notRelayed = (): Fault =>
  new Fault("not_implemented", "this edge serves only requests to providers", {
    hint: "send it to a broker, or set LATCHKEY_BROKERS_DATA",
  });

function inRandomOrder(urls: readonly string[]): URL[] {
  const from = Math.floor(Math.random() * urls.length);
  return [...urls.slice(from), ...urls.slice(0, from)].map((url) => new URL(url));
}

const readableOf = (request: FrontRequest) =>
  request instanceof StreamRequest ? bodyStreamOf(request) : (request as IncomingMessage);

/** Returns the fields of a request for a broker: name, value, name, value. */
function requestFields({ rawHeaders, headers, socket }: FrontRequest, { host }: URL): string[] {
  const fields = ["host", host, relayedField, "edge"];
  for (const [name, value] of pairsOf(rawHeaders, namedIn(headers.connection))) fields.push(name, value);
  if (socket.remoteAddress !== undefined && headers["x-forwarded-for"] === undefined) {
    fields.push("x-forwarded-for", socket.remoteAddress);
  }
  return fields;
}

function passAnswer(answer: IncomingMessage, response: FrontResponse): void {
  const names = new Map<string, string[]>();
  for (const [name, value] of pairsOf(answer.rawHeaders, namedIn(answer.headers.connection))) {
    const lower = name.toLowerCase();
    names.set(lower, [...(names.get(lower) ?? []), value]);
  }
  for (const [name, values] of names) response.setHeader(name, values.length === 1 ? (values[0] ?? "") : values);
  response.writeHead(answer.statusCode ?? 502);
  response.flushHeaders();
  const body = response instanceof StreamResponse ? bodyStreamTo(response) : (response as unknown as Writable);
  answer.on("error", () => response.destroy());
  // A broker that ends in the middle must not look complete.
  answer.on("close", () => {
    if (!answer.complete) response.destroy();
  });
  answer.pipe(body);
}

const namedIn = (connection: string | undefined): ReadonlySet<string> =>
  new Set((connection ?? "").split(",").map((name) => name.trim().toLowerCase()));

function* pairsOf(raw: readonly string[], named: ReadonlySet<string>): Iterable<readonly [string, string]> {
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] ?? "";
    const lower = name.toLowerCase();
    if (!hopByHop.has(lower) && !named.has(lower)) yield [name, raw[i + 1] ?? ""];
  }
}

/** The handshake names the upgrade, so its connection fields are kept. */
function upgradeHead({ method, url: target, rawHeaders }: IncomingMessage, { host }: URL): string {
  const lines = [`${method} ${target} HTTP/1.1`, `host: ${host}`, `${relayedField}: edge`];
  for (let i = 0; i < rawHeaders.length; i += 2) {
    if (rawHeaders[i]?.toLowerCase() !== "host") lines.push(`${rawHeaders[i]}: ${rawHeaders[i + 1]}`);
  }
  return `${lines.join("\r\n")}\r\n\r\n`;
}
