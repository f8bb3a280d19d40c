/** One small request to a provider, and the whole of its answer. Rejects with `Unanswered`. */
export type SendSmallRequest = (request: SmallRequest, options?: SendOptions) => Promise<SmallAnswer>;

export interface SmallRequest {
  /** Without a fragment. What may be sent there is judged anew each time. */
  readonly url: string;
  readonly method: string;
  /** Beside those that the way itself needs: host, length, and no compression. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  /**
   * It may arrive twice: it goes over a connection that lay idle, and once more over a new one when that turns out to
   * be closed. Unless said, so do the methods that may (RFC 9110, 9.2.2), and the second only without a body.
   */
  readonly mayRepeat?: boolean;
  /**
   * It goes over a connection that has brought the answer to another such request a moment ago, and has carried
   * nothing else, where there is one. Should that end without an answer, nobody can say whether this one arrived, as
   * with a connection of its own; and it is not sent once more (RFC 9112, 9.3.1).
   */
  readonly mayFollow?: boolean;
  /** PEM, shown to the provider when the connection is made. */
  readonly clientCertificate?: { readonly certificate: string; readonly privateKey: string } | undefined;
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** From the call to the end of the answer; 60 seconds unless said. */
  readonly deadlineMs?: number;
  /** Of the answer, decoded; 1 MiB unless said. */
  readonly maxBytes?: number;
}

export interface SmallAnswer {
  readonly status: number;
  /** The first of that name, which is given in lower case. */
  header(name: string): string | undefined;
  /** Name, value, name, value, as they came. */
  readonly fields: readonly string[];
  readonly body: Buffer;
}

/** Why there is no answer, or none that can be taken. Nothing of the request is in the message. */
export class RequestFailed extends Error {
  override readonly name = "Unanswered";
  /** A word: `refused`, `unknown_host`, `untrusted`, `closed`, `deadline`, `left`, `too_large`, `unsendable` and their like. */
  readonly reason: string;
  /** False: certainly nothing of the request reached the provider, and it may be made again. */
  readonly mayHaveArrived: boolean;
  /** Of an answer that began. */
  readonly status: number | undefined;

  constructor(
    { reason, mayHaveArrived, status }: Pick<RequestFailed, "reason" | "mayHaveArrived" | "status">,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.reason = reason;
    this.mayHaveArrived = mayHaveArrived;
    this.status = status;
  }
}
