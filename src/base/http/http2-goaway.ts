import http2, { type ServerHttp2Session } from "node:http2";
import type { Socket } from "node:net";
import { everyStream, writeFirstGoaway } from "../node/first-goaway.ts";
import type { LeavingSession } from "./session-goaway.ts";

const { NGHTTP2_NO_ERROR: noError } = http2.constants;

/** The GOAWAYs of a session of `node:http2`. */
export class NodeLeavingSession implements LeavingSession {
  readonly #session: ServerHttp2Session;
  readonly #socket: Socket;
  /** nghttp2 has sent the first GOAWAY, and ignores every stream that begins after it. */
  #ignoresStreams = false;

  /** `socket`: the connection that the session runs over. */
  constructor(session: ServerHttp2Session, socket: Socket) {
    this.#session = session;
    this.#socket = socket;
  }

  get isOver(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  ping(done: () => void): void {
    this.#session.ping(() => done());
  }

  announceEnd(): void {
    this.#ignoresStreams = !writeFirstGoaway(this.#socket);
    if (this.#ignoresStreams) this.#session.goaway(noError, everyStream);
  }

  onAllArrived(): void {
    if (this.#ignoresStreams) this.#session.goaway(noError);
  }

  close(): void {
    this.#session.close();
  }
}
