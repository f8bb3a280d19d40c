/** The connection as a stream sees it. */
export interface StreamConnection {
  /** The peer is a client. */
  readonly isServer: boolean;
  /** The window of a new stream: for us, as the peer has set it, and for the peer. */
  readonly initialSendWindow: number;
  readonly streamWindow: number;
  /** The socket has more unsent bytes than it should: write no content. */
  readonly isCongested: boolean;
  /** Bytes that one DATA frame may carry now. */
  readonly mostToSend: number;
  writeFields(streamId: number, fields: readonly string[], isEnd: boolean, sensitive: readonly string[]): void;
  writeData(streamId: number, content: Buffer): void;
  writeEnd(streamId: number): void;
  writeReset(streamId: number, code: number): void;
  /** The peer resets a stream that is open, or breaks a rule so that we reset it. */
  noteReset(): void;
  writeWindowUpdate(streamId: number, increment: number): void;
  /** Received bytes of DATA that no longer take memory. */
  consumed(length: number): void;
  /** Counts content that begins to wait, or, if negative, no longer waits. */
  queued(bytes: number): void;
  /** Calls `sendWaiting` when more may be sent. */
  addWaiting(stream: SendingStream): void;
  forget(stream: SendingStream): void;
}

/** A stream that may have content to send. */
export interface SendingStream {
  readonly id: number;
  readonly isClosed: boolean;
  /** Bytes that were written and wait for the peer or the socket. */
  readonly unsentBytes: number;
  /** Written only by `WaitingStreams`: the place among the waiting streams. */
  isWaiting: boolean;
  waitsBehind: SendingStream | undefined;
  waitsBefore: SendingStream | undefined;
  /** Sends at most this many bytes of what waits. Returns whether the stream still waits. */
  sendWaiting(mostBytes: number): boolean;
}
