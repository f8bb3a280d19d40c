import { Fault } from "../../base/fault.ts";
import type { WatchOutcome } from "./protocols/protocol.ts";

/** Returns the ID of the channel that was created. Throws the caller's fault for any other outcome. */
export function requireMade(outcome: WatchOutcome): string {
  switch (outcome.kind) {
    case "made":
      return outcome.id;
    case "overtaken":
      throw new Fault("conflict", "another request for a channel on this resource is in progress");
    case "unsent":
      if (outcome.fault !== undefined) throw outcome.fault;
      throw new Fault("connection_unusable", `no request could be sent to the provider (${outcome.code})`);
    case "id_taken":
      throw new Fault("already_exists", "the provider already has a channel with this id");
    case "refused":
      if (outcome.fault !== undefined) throw outcome.fault;
      throw new Fault("connection_unusable", `the provider rejected the channel (${outcome.code})`);
    case "put_off": {
      const retryAfterSeconds = Math.ceil((outcome.retryAfterMs ?? 1_000) / 1_000);
      throw new Fault(
        "provider_unreachable",
        `the provider cannot create a channel now (${outcome.code}); try again later`,
        {
          retryAfterSeconds,
        },
      );
    }
    case "unheard": {
      const message = `the outcome is unknown (${outcome.code}); if the provider created the channel, it is stopped`;
      throw new Fault("provider_closed", message);
    }
  }
}
