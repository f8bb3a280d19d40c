/** Why a provider's answer cannot be had. */
export type FailureKind =
  /** Nothing takes connections there. */
  | "refused"
  | "unreachable"
  | "unknown_host"
  /** The name leads to an address that nobody is to be led to. */
  | "address_forbidden"
  | "untrusted"
  | "connect_timeout"
  /** No answer has begun. */
  | "answer_timeout"
  /** Nothing has come, or been taken, for too long. */
  | "idle_timeout"
  /** The connection ended before the answer began. */
  | "closed"
  /** The connection ended within the answer. */
  | "cut_off"
  /** What came is not HTTP, or could be read in two ways. */
  | "malformed"
  /** As many requests as may wait for this host do so already. */
  | "overloaded"
  /** It does not speak HTTP/2, and the request can go in no other way. */
  | "no_http2";

export class RelayFailure extends Error {
  override readonly name = "RelayFailure";
  readonly kind: FailureKind;
  /** Of a stream that the provider has reset: why, as HTTP/2 says it. */
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
  new RelayFailure("overloaded", `as many requests as may are under way to ${host}, and wait for it`);
