import { Fault } from "../base/fault.ts";
import type { World } from "../base/world.ts";
import { type CallerIdentities, createCallerIdentities } from "../broker/identities/caller-identities.ts";
import { withIdentities } from "../broker/identities/identified-access.ts";
import type { FetchKeySet } from "../broker/identities/issuer-keys.ts";
import type { Caller } from "../broker/setup/caller.ts";
import type { EdgeIdentityConfig } from "../config/edges/edge-rules.ts";
import type { EdgeKeyAccess } from "./edge-access.ts";
import type { Followed } from "./followed.ts";

/** The callers of an edge: by keys that brokers know, and by identities that the edge checks itself. */
export interface EdgeCallers {
  readonly access: EdgeKeyAccess;
  /** Reads the rules again. Rules with mistakes are rejected, and the previous ones stay in force. */
  reload(): void;
}

interface EdgeCallersOptions {
  readonly config: EdgeIdentityConfig;
  readonly followed: Pick<Followed, "access" | "environment">;
  readonly fetchKeySet: FetchKeySet;
  readonly world: World;
}

export function createEdgeCallers({ config, followed, fetchKeySet, world }: EdgeCallersOptions): EdgeCallers {
  const { log, metrics } = world;
  const identities = createCallerIdentities({ world });
  identities.configure(config.identities, fetchKeySet);

  /** An edge has the connections of one environment, whatever a rule says. */
  function requireOwn(caller: Caller): Caller {
    const environment = followed.environment();
    if (caller.environment === environment) return caller;
    const message = `the rule of this identity is for the environment ${caller.environment}; this edge follows ${environment}`;
    throw Fault.withoutStack("identity_refused", message, { metadata: { identity: caller.keyId } });
  }

  const own = (found: Caller | Promise<Caller>) =>
    found instanceof Promise ? found.then(requireOwn) : requireOwn(found);
  const ofEdge: CallerIdentities = {
    ...identities,
    callerWithToken: (token) => own(identities.callerWithToken(token)),
    callerOfPeer(socket) {
      const found = identities.callerOfPeer(socket);
      return found && own(found);
    },
    isCurrent: (caller) => caller.environment === followed.environment() && identities.isCurrent(caller),
    currentCaller(caller) {
      const found = identities.currentCaller(caller);
      return found?.environment === followed.environment() ? found : undefined;
    },
  };
  return {
    access: withIdentities(followed.access, ofEdge),
    reload() {
      try {
        identities.configure(config.readIdentities(), fetchKeySet);
        metrics.configRejected.set(0);
        log.info("the rules for identities were applied");
      } catch (err) {
        metrics.configRejected.set(1);
        log.error("the configuration file was rejected; the previous rules for identities stay in force", { err });
      }
    },
  };
}
