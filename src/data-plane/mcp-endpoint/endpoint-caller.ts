import type { Caller } from "../../broker/setup/caller.ts";

/** The caller of a message, with what tools need of it. */
export interface EndpointCaller {
  readonly caller: Caller;
  readonly environment: string;
  /** The connection that the client's configuration names; empty: none. */
  readonly connectionHeader: string;
  /** Whether the caller's limits allow a tool. */
  admitsTool(name: string): boolean;
}
