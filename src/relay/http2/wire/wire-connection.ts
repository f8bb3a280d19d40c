import { errorCodes } from "./error-codes.ts";
import { protocolError } from "./frame-checks.ts";
import { FramedConnection, type FramedConnectionOptions } from "./framed-connection.ts";
import { clientPreface, defaultWindow, maxStreamId, settingIds } from "./frames.ts";
import { PeerSettings } from "./peer-settings.ts";
import { type StreamOwner, WireStream } from "./wire-stream.ts";

/** The client side of an HTTP/2 connection. */
export class WireConnection extends FramedConnection {
  readonly isServer = false;
  readonly #owner: FramedConnectionOptions["owner"];
  #nextId = 1;

  constructor(options: FramedConnectionOptions) {
    super(options, new PeerSettings(true));
    const { owner, streamWindow, connectionWindow } = options;
    this.#owner = owner;
    this.output.raw(clientPreface);
    this.output.settings([settingIds.enablePush, 0, settingIds.initialWindowSize, streamWindow]);
    this.output.windowUpdate(0, connectionWindow - defaultWindow);
  }

  /** Whether there are stream IDs left. */
  get canOpen(): boolean {
    return !this.isClosed && this.#nextId < maxStreamId;
  }

  /** Opens a stream with a request; the arguments are those of `sendFields`. */
  open(owner: StreamOwner, fields: readonly string[], isEnd: boolean, sensitive: readonly string[]): WireStream {
    const stream = new WireStream(this, this.#nextId, owner);
    this.#nextId += 2;
    this.streams.add(stream);
    stream.sendFields(fields, isEnd, sensitive);
    return stream;
  }

  protected known(streamId: number, frame: string): WireStream | undefined {
    const stream = this.streams.get(streamId);
    if (stream !== undefined) return stream;
    // The peer opens no streams; streams that we have not opened are idle.
    if (streamId % 2 === 0 || streamId >= this.#nextId) throw protocolError(`${frame} on a stream that is not open`);
    return undefined;
  }

  protected expectBlock(streamId: number): void {
    this.known(streamId, "HEADERS");
  }

  protected takeBlock(): void {
    // The stream is over.
  }

  protected takeGoaway(lastStreamId: number, code: number): void {
    if (lastStreamId > 0 && lastStreamId % 2 === 0) throw protocolError("a GOAWAY names a stream of the peer");
    this.#owner.onGoaway(lastStreamId, code);
    for (const stream of this.streams.now()) {
      // RFC 9113, 6.8: the peer has not processed these streams.
      if (stream.id > lastStreamId) stream.abandon(errorCodes.refusedStream);
    }
  }

  protected writeGoaway(code: number): void {
    this.output.goaway(0, code);
  }
}
