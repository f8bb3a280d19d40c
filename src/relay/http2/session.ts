import type { Socket } from "node:net";
import { createFrameLimit } from "../../base/http/control-frames.ts";
import { LiveSet } from "../../base/live-set.ts";
import { hasTickEnd, waitsForOthers, writeSoon } from "../batching.ts";
import { failureOf } from "../dial-failure.ts";
import { endedByProvider, RelayFailure } from "../failure.ts";
import { type OriginLimits, overdue } from "../limits.ts";
import type { Origin } from "../origin.ts";
import { createSocketSink } from "./socket-sink.ts";
import type { SessionCallbacks, StreamExchange } from "./stream-exchange.ts";
import { errorCodes, errorName } from "./wire/error-codes.ts";
import { WireConnection } from "./wire/wire-connection.ts";

/** An HTTP/2 session with a provider, which carries many requests, and the state of the session. */
export interface Http2ProviderSession {
  readonly wire: WireConnection;
  readonly socket: Socket;
  readonly streams: LiveSet<StreamExchange>;
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
  /** Counts reads. */
  reads: number;
  readsBefore: number;
  heardAt: number;
  pingedAt: number | undefined;
  closingSince: number | undefined;
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

/** A provider that does not close a connection after GOAWAY loses it. */
const closingMs = 5_000;
/** Field blocks of a provider. */
const maxFields = 1_000;
const maxListBytes = 64 * 1024;
/** A provider with more unsent bytes is not read from: each of its frames could cause another one of ours. */
const mostUnsentBytes = 1024 * 1024;

/** Opens a session over a connected socket, whose bytes have to be given to `readSession`. */
export function openProviderSession(options: SessionOptions): Http2ProviderSession {
  const { origin, socket, nowMs, over, onSettings, onClosed } = options;
  const member = { workNow: () => {}, writeNow: () => wire.flush() };
  const takeControlFrame = createFrameLimit(
    () => socket.bytesWritten,
    () => {
      session.failure ??= new RelayFailure("malformed", "the provider sent too many PING and SETTINGS frames");
      closeSession(session, errorCodes.enhanceYourCalm);
    },
  );
  const wire: WireConnection = new WireConnection({
    sink: createSocketSink(socket),
    streamWindow,
    connectionWindow: sessionWindow,
    maxFields,
    maxListBytes,
    owner: {
      onDirty() {
        if (hasTickEnd()) writeSoon(member);
        else process.nextTick(member.writeNow);
      },
      onControlFrame: takeControlFrame,
      onSettings() {
        session.hasSpoken = true;
        onSettings();
      },
      onGoaway(lastStreamId, code) {
        session.isLeaving = true;
        session.lastStreamId = Math.min(session.lastStreamId, lastStreamId);
        if (code === errorCodes.noError) return;
        session.failure ??= new RelayFailure("closed", `the provider ended the session (${errorName(code)})`);
        closeSession(session, errorCodes.noError);
      },
      onError(error) {
        session.failure ??= session.hasSpoken
          ? new RelayFailure("malformed", `the provider violated HTTP/2: ${error.message}`, { cause: error })
          : noHttp2(origin);
        closeSession(session, error.code);
      },
    },
  });
  const session: Http2ProviderSession = {
    wire,
    socket,
    streams: new LiveSet(),
    carrying: {
      over: (exchange, unanswered) => over(session, exchange, unanswered),
      failure: () => session.failure,
    },
    hasSpoken: false,
    isLeaving: false,
    hasCarried: false,
    isReused: false,
    lastStreamId: Number.POSITIVE_INFINITY,
    failure: undefined,
    idleSince: nowMs,
    reads: 0,
    readsBefore: 0,
    heardAt: nowMs,
    pingedAt: undefined,
    closingSince: undefined,
  };
  const ended = (failure: RelayFailure) => {
    session.isLeaving = true;
    session.failure ??= !session.hasSpoken && session.reads > 0 ? noHttp2(origin) : failure;
  };
  socket.on("error", (error) => ended(failureOf(error, true)));
  socket.on("end", () => ended(endedByProvider()));
  socket.on("drain", () => {
    wire.drained();
    if (socket.isPaused()) socket.resume();
  });
  socket.once("close", () => {
    // Record the cause before any stream learns that the session has closed.
    ended(endedByProvider());
    wire.lost();
    onClosed(session);
  });
  return session;
}

/** Handles bytes of the provider, which are borrowed. */
export function readSession(session: Http2ProviderSession, bytes: Buffer): void {
  const { wire, socket, streams } = session;
  session.reads += 1;
  // Counted, so that what all connections write in this tick leaves at its end.
  waitsForOthers();
  wire.read(bytes);
  if (wire.unsentBytes > mostUnsentBytes) socket.pause();
  if (session.isLeaving && streams.size === 0) closeSession(session, errorCodes.noError);
}

/** Says GOAWAY and closes the connection. Streams that are still open fail. */
export function closeSession(session: Http2ProviderSession, code: number): void {
  const { wire, socket } = session;
  session.isLeaving = true;
  if (session.closingSince !== undefined) return;
  session.closingSince = performance.now();
  wire.end(code);
  wire.flush();
  socket.destroySoon();
}

/** The provider's SETTINGS come first and limit the streams; the provider would refuse more. */
export function hasRoom({ wire, streams, isLeaving, hasSpoken }: Http2ProviderSession): boolean {
  if (!hasSpoken || isLeaving || !wire.canOpen) return false;
  return streams.size < Math.min(wire.peer.maxConcurrentStreams, maxStreams);
}

interface SessionCheck {
  readonly nowMs: number;
  readonly isDraining: boolean;
  readonly limits: OriginLimits;
}

/** Fails streams without progress, sends a PING on a silent session, and closes an idle session. */
export function sweepSession(session: Http2ProviderSession, { nowMs, isDraining, limits }: SessionCheck): void {
  const { wire, socket, streams } = session;
  for (const exchange of streams.now()) {
    const failure = overdue(exchange, exchange.idleMs(nowMs), limits);
    if (failure !== undefined) exchange.fail(failure);
  }
  if (session.closingSince !== undefined) {
    if (nowMs - session.closingSince > closingMs) socket.destroy();
    return;
  }
  if (session.reads !== session.readsBefore) {
    session.readsBefore = session.reads;
    session.heardAt = nowMs;
    session.pingedAt = undefined;
  }
  if (streams.size === 0) {
    if (isDraining || nowMs - session.idleSince > idleForMs) closeSession(session, errorCodes.noError);
  } else if (session.pingedAt === undefined) {
    if (nowMs - session.heardAt <= silentMs) return;
    session.pingedAt = nowMs;
    wire.ping();
  } else if (nowMs - session.pingedAt > pongMs) {
    session.isLeaving = true;
    session.failure ??= new RelayFailure("closed", "the provider stopped responding");
    socket.destroy();
  }
}

export const noHttp2 = ({ host }: Origin) =>
  new RelayFailure("no_http2", `${host} does not support HTTP/2, which the request requires`);
