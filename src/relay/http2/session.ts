import http2, { type ClientHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { limitControlFrames } from "../../base/http/control-frames.ts";
import { failureOf } from "../dial-failure.ts";
import type { Exchange, UpstreamRequest } from "../exchange.ts";
import { endedByProvider, RelayFailure } from "../failure.ts";
import { type OriginLimits, overdue } from "../limits.ts";
import { hrefOf, type Origin } from "../origin.ts";
import type { ResponseReceiver } from "../response-receiver.ts";
import type { SessionCallbacks, StreamExchange } from "./stream-exchange.ts";

/** A request over HTTP/2. */
export interface StreamedRequest {
  readonly request: UpstreamRequest;
  readonly receiver: ResponseReceiver;
  waitingSince: number;
  /** Continues on this exchange after the wait for a session. */
  continueOver(exchange: Exchange): void;
  /** The origin does not speak HTTP/2, and the request does not need HTTP/2. */
  fallBack(): void;
  /**
   * The request got no response and may be repeated. `unprocessed`: the provider has not seen the request; otherwise
   * a repeat is harmless. Returns false when a repeat is not allowed, or the body is no longer available.
   */
  startOver(unprocessed: boolean): boolean;
}

/** An HTTP/2 session with a provider, which carries many requests, and the state of the session. */
export interface Http2ProviderSession {
  readonly http2: ClientHttp2Session;
  readonly socket: Socket;
  readonly streams: Map<StreamExchange, StreamActivity>;
  readonly carrying: SessionCallbacks;
  /** The provider's SETTINGS have arrived, so the provider speaks HTTP/2. */
  hasSpoken: boolean;
  /** The session takes no new streams: it is about to end. */
  isLeaving: boolean;
  hasCarried: boolean;
  /** The session has completed a request. */
  isReused: boolean;
  /** The last stream ID that the provider accepts. */
  lastStreamId: number;
  failure: RelayFailure | undefined;
  idleSince: number;
  bytesRead: number;
  heardAt: number;
  pingedAt: number | undefined;
}

interface StreamActivity {
  readonly pending: StreamedRequest;
  activity: number;
  since: number;
}

interface SessionOptions {
  readonly origin: Origin;
  readonly socket: Socket;
  readonly nowMs: number;
  readonly over: (session: Http2ProviderSession, ...gone: Parameters<SessionCallbacks["over"]>) => boolean;
  /** The provider has sent how many streams it accepts. */
  readonly onSettings: () => void;
  readonly onClosed: (session: Http2ProviderSession) => void;
}

const maxStreams = 1_000;
/** Idle timeout of a session without streams. */
const idleForMs = 60_000;
/**
 * A session with open streams that receives nothing for this long gets one PING. More would count against us: gRPC
 * servers limit PINGs from clients that send no data.
 */
const silentMs = 10_000;
const pongMs = 10_000;
/** Flow-control windows: bytes in transit and unread, for each stream and for the session. */
const streamWindow = 256 * 1024;
const sessionWindow = 4 * 1024 * 1024;

const sessionOptions = {
  settings: { enablePush: false, initialWindowSize: streamWindow },
  maxSessionMemory: 64,
  maxHeaderListPairs: 1_000,
  // Headers that a client repeats are forwarded as often, as over HTTP/1.1.
  strictSingleValueFields: false,
};

const { NGHTTP2_NO_ERROR, NGHTTP2_ENHANCE_YOUR_CALM } = http2.constants;

/** Opens a session over a connected socket. */
export function openProviderSession({
  origin,
  socket,
  nowMs,
  over,
  onSettings,
  onClosed,
}: SessionOptions): Http2ProviderSession {
  const own = http2.connect(hrefOf(origin), { ...sessionOptions, createConnection: () => socket });
  const session: Http2ProviderSession = {
    http2: own,
    socket,
    streams: new Map(),
    carrying: {
      over: (exchange, unanswered) => over(session, exchange, unanswered),
      failure: (error) => session.failure ?? failureOfSession(error),
    },
    hasSpoken: false,
    isLeaving: false,
    hasCarried: false,
    isReused: false,
    lastStreamId: Number.POSITIVE_INFINITY,
    failure: undefined,
    idleSince: nowMs,
    bytesRead: 0,
    heardAt: nowMs,
    pingedAt: undefined,
  };
  // Through a proxy without TLS, the socket has read the answer to CONNECT, and perhaps the origin's first frame.
  const bytesBefore = socket.bytesRead - socket.readableLength;
  const ended = (error: Error) => {
    session.isLeaving = true;
    const isForeign = !session.hasSpoken && socket.bytesRead > bytesBefore;
    session.failure ??= isForeign ? noHttp2(origin) : (failureOfSession(error) ?? failureOf(error, true));
  };
  // Record the cause before any stream learns that the session has closed.
  socket.on("error", ended).once("close", () => ended(endedByProvider()));
  own.once("connect", () => own.setLocalWindowSize(sessionWindow));
  own.on("goaway", (code, lastStreamId) => {
    session.isLeaving = true;
    session.lastStreamId = lastStreamId;
    if (code !== NGHTTP2_NO_ERROR) ended(new RelayFailure("closed", `the provider ended the session (${code})`));
  });
  own.on("error", (error: Error) => {
    ended(error);
    own.destroy();
  });
  own.on("remoteSettings", () => {
    session.hasSpoken = true;
    onSettings();
  });
  own.once("close", () => {
    session.isLeaving = true;
    onClosed(session);
  });
  limitControlFrames(own, () => {
    ended(new RelayFailure("malformed", "the provider sent too many PING and SETTINGS frames"));
    own.destroy(undefined, NGHTTP2_ENHANCE_YOUR_CALM);
  });
  return session;
}

/** The provider's SETTINGS come first and limit the streams; the provider would refuse more. */
export function hasRoom({ http2: own, streams, isLeaving, hasSpoken }: Http2ProviderSession): boolean {
  if (!hasSpoken || isLeaving || own.closed || own.destroyed) return false;
  const { maxConcurrentStreams = maxStreams } = own.remoteSettings;
  return streams.size < Math.min(maxConcurrentStreams, maxStreams);
}

interface SessionCheck {
  readonly nowMs: number;
  readonly isDraining: boolean;
  readonly limits: OriginLimits;
}

/** Fails streams without progress, sends a PING on a silent session, and closes an idle session. */
export function sweepSession(session: Http2ProviderSession, { nowMs, isDraining, limits }: SessionCheck): void {
  const { http2: own, socket, streams } = session;
  for (const [exchange, seen] of streams) {
    if (exchange.activity !== seen.activity) {
      seen.activity = exchange.activity;
      seen.since = nowMs;
      continue;
    }
    const failure = overdue(exchange, nowMs - seen.since, limits);
    if (failure !== undefined) exchange.fail(failure);
  }
  if (socket.bytesRead !== session.bytesRead) {
    session.bytesRead = socket.bytesRead;
    session.heardAt = nowMs;
    session.pingedAt = undefined;
  }
  if (streams.size === 0) {
    if (isDraining || nowMs - session.idleSince > idleForMs) {
      session.isLeaving = true;
      own.close();
    }
  } else if (session.pingedAt === undefined) {
    if (nowMs - session.heardAt <= silentMs || own.closed || own.destroyed) return;
    session.pingedAt = nowMs;
    own.ping(() => {});
  } else if (nowMs - session.pingedAt > pongMs) {
    session.isLeaving = true;
    session.failure ??= new RelayFailure("closed", "the provider stopped responding");
    own.destroy();
  }
}

/** An error of the whole session, reported by nghttp2; every other error concerns a single stream. */
function failureOfSession(error: Error | undefined): RelayFailure | undefined {
  if ((error as NodeJS.ErrnoException | undefined)?.code !== "ERR_HTTP2_ERROR") return undefined;
  return new RelayFailure("malformed", `the provider violated HTTP/2: ${error?.message}`, { cause: error });
}

export const noHttp2 = ({ host }: Origin) =>
  new RelayFailure("no_http2", `${host} does not support HTTP/2, which the request requires`);
