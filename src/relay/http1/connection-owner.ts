import type { Egress } from "../egress.ts";
import type { RelayFailure } from "../failure.ts";
import type { ResponseReceiver } from "../response-receiver.ts";
import type { BulkBuffers } from "./bulk.ts";
import type { ReadHead } from "./response-head.ts";

/** A request, as seen by the connection that carries the request. */
export interface CarriedRequest {
  readonly receiver: ResponseReceiver;
  readonly isHead: boolean;
  /** The whole request has been written. */
  isSent: boolean;
  /** The connection is established: bytes written to the connection are sent and cannot be taken back. */
  connected(): void;
}

/** The shared owner of all connections. */
export interface ConnectionOwner<C> {
  readonly egress: Egress;
  readonly bulk: BulkBuffers;
  readonly readHead: ReadHead;
  /** The connection has completed an exchange and can carry another. */
  onIdle(connection: C): void;
  /** The connection has closed. A carried request without a response may go to another connection. */
  onGone(connection: C, unanswered: CarriedRequest | undefined, failure: RelayFailure): void;
}
