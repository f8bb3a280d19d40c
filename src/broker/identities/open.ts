import type { World } from "../../base/world.ts";
import type { EdgeIdentityRules, IdentityRules } from "../../core/identities/identity-rules.ts";
import type { Access } from "../setup/access.ts";
import { type CallerIdentities, createCallerIdentities } from "./caller-identities.ts";
import { createEdgeIdentities, type EdgeIdentities } from "./edge-identities.ts";
import { withIdentities } from "./identified-access.ts";
import type { FetchKeySet } from "./issuer-keys.ts";

/** Proves callers that have no key: by tokens, client certificates, Unix sockets and users. */
export interface IdentityRoom {
  readonly identities: CallerIdentities;
  readonly edgeIdentities: EdgeIdentities;
  /** Keys and identities together: the listeners find all callers here. */
  readonly access: Access;
  /** Replaces the rules of the configuration. */
  readonly configureIdentities: (rules: ConfiguredIdentities, fetch: FetchKeySet) => void;
}

export interface ConfiguredIdentities {
  readonly identities: IdentityRules;
  readonly edgeIdentities: EdgeIdentityRules;
}

interface IdentityRoomOptions {
  readonly access: Access;
  readonly world: World;
}

export function openIdentities({ access, world }: IdentityRoomOptions): IdentityRoom {
  const identities = createCallerIdentities({ world });
  const edgeIdentities = createEdgeIdentities(world);
  return {
    identities,
    edgeIdentities,
    access: withIdentities(access, identities),
    configureIdentities(rules, fetch) {
      identities.configure(rules.identities, fetch);
      edgeIdentities.configure(rules.edgeIdentities, fetch);
    },
  };
}
