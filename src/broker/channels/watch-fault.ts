import { Fault } from "../../base/fault.ts";
import type { WatchOutcome } from "./protocols/protocol.ts";

/** Returns the ID of the channel that was created. Throws the caller's fault for any other outcome. */
export function requireMade(outcome: WatchOutcome): string {
  switch (outcome.kind) {
    case "made":
      return outcome.id;
    case "overtaken":
      throw new Fault("conflict", "somebody else is making a channel on this resource at this moment");
    case "unsent":
      if (outcome.fault !== undefined) throw outcome.fault;
      throw new Fault("connection_unusable", `nothing could be asked of the provider (${outcome.code})`);
    case "id_taken":
      throw new Fault("already_exists", "the provider knows a channel of this id");
    case "refused":
      if (outcome.fault !== undefined) throw outcome.fault;
      throw new Fault("connection_unusable", `the provider refuses the channel (${outcome.code})`);
    case "put_off": {
      const retryAfterSeconds = Math.ceil((outcome.retryAfterMs ?? 1_000) / 1_000);
      throw new Fault("provider_unreachable", `the provider makes no channel now (${outcome.code})`, {
        retryAfterSeconds,
      });
    }
    case "unheard": {
      const message = `whether the provider made the channel is not known (${outcome.code}); if it did, it is stopped`;
      throw new Fault("provider_closed", message);
    }
  }
}
