/** Sends a small request to a provider and returns the whole response. Rejects with `Unanswered`. */
export type SendSmallRequest = (request: SmallRequest, options?: SendOptions) => Promise<SmallAnswer>;

export interface SmallRequest {
  /** Without a fragment. The address is checked on each request. */
  readonly url: string;
  /** Path and query, byte for byte; default: those of the URL, in which some characters are written in another way. */
  readonly target?: string;
  readonly method: string;
  /** Headers in addition to `Host`, `Content-Length` and those that refuse compression. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | Uint8Array | undefined;
  /**
   * The request may arrive twice: it may use an idle connection, and is repeated on a new one if that was closed.
   * Default: true for idempotent methods (RFC 9110, 9.2.2), with the repeat only for requests without a body.
   */
  readonly mayRepeat?: boolean;
  /**
   * The request may use a connection that completed another such request a moment ago and carried nothing else. If that
   * connection ends without a response, it is unknown whether the request arrived, as on a new connection, and the
   * request is not repeated (RFC 9112, 9.3.1).
   */
  readonly mayFollow?: boolean;
  /** Client certificate for the provider; PEM. */
  readonly clientCertificate?: { readonly certificate: string; readonly privateKey: string } | undefined;
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined;
  /** Limits the time from the call to the end of the response; default: 60 seconds. */
  readonly deadlineMs?: number;
  /** Limits the decoded response; default: 1 MiB. */
  readonly maxBytes?: number;
}

export interface SmallAnswer {
  readonly status: number;
  /** Returns the first header of this lower-case name. */
  header(name: string): string | undefined;
  /** Name, value, name, value, as received. */
  readonly fields: readonly string[];
  readonly body: Buffer;
}

/** No usable response. The message holds nothing of the request. */
export class RequestFailed extends Error {
  override readonly name = "Unanswered";
  /** Machine-readable reason: `refused`, `unknown_host`, `untrusted`, `closed`, `deadline`, `left`, `too_large`, … */
  readonly reason: string;
  /** False: the provider has certainly received nothing, so the request may be repeated. */
  readonly mayHaveArrived: boolean;
  /** Status of a response that began. */
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
