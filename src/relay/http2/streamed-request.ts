import type { Exchange, UpstreamRequest } from "../exchange.ts";
import type { ResponseReceiver } from "../response-receiver.ts";

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
