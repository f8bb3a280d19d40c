import type { StoredChannel } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import type { WatchedResource } from "./rules/slot.ts";

/** The integration that a signal was sent to. */
export interface SignalReceiver {
  readonly integration: Integration;
  readonly provider: Provider;
}

/** The channel that a signal is about. */
export interface SignalSubject {
  readonly id: string;
  readonly watched: WatchedResource;
  readonly stored: StoredChannel;
}

/** Finds the channel that a provider names by either ID. */
export type FindSubject = (integration: Integration, named: string) => Promise<SignalSubject | undefined>;

/** Reads values of a notification by the names of the provider's rules. */
export type ReadValues = (name: string) => readonly string[];
