/** Why no response came from a provider. */
export type FailureKind =
  /** The host refuses connections. */
  | "refused"
  | "unreachable"
  | "unknown_host"
  /** The name resolves to a forbidden address. */
  | "address_forbidden"
  | "untrusted"
  | "connect_timeout"
  /** No response has begun in time. */
  | "answer_timeout"
  /** No bytes were received, or taken, for too long. */
  | "idle_timeout"
  /** The connection ended before the response began. */
  | "closed"
  /** The connection ended within the response. */
  | "cut_off"
  /** The response is not HTTP, or could be parsed in two ways. */
  | "malformed"
  /** The queue of requests for this host is full. */
  | "overloaded"
  /** The host does not speak HTTP/2, and the request needs HTTP/2. */
  | "no_http2"
  /** The egress proxy cannot be reached or used. */
  | "egress_proxy"
  /** The egress proxy forbids the host. */
  | "egress_refused";

export class RelayFailure extends Error {
  override readonly name = "RelayFailure";
  readonly kind: FailureKind;
  /** HTTP/2 error code of a stream that the provider has reset. */
  readonly resetCode: number | undefined;

  constructor(
    kind: FailureKind,
    message: string,
    options: ErrorOptions & { readonly resetCode?: number | undefined } = {},
  ) {
    super(message, options);
    this.kind = kind;
    this.resetCode = options.resetCode;
  }
}

export const noConnection = () => new RelayFailure("connect_timeout", "no connection in time");

export const endedByProvider = () => new RelayFailure("closed", "the provider ended the connection");

export const overloaded = ({ host }: { readonly host: string }) =>
  new RelayFailure("overloaded", `too many requests to ${host} are pending`);
