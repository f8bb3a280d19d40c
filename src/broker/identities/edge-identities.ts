import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import {
  type EdgeIdentityRules,
  environmentsOfAccount,
  noEdgeIdentities,
} from "../../core/identities/identity-rules.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Caller, EdgeIdentity } from "../setup/caller.ts";
import type { FetchKeySet } from "./issuer-keys.ts";
import { createKeySets } from "./key-sets.ts";
import type { PeerCertificate } from "./peer-certificate.ts";
import { createTokenVerifier, isStillValid, requireNotEnded, type VerifiedToken } from "./token-verifier.ts";

/** Identities of edges that have no key: service accounts of Kubernetes, and client certificates. */
export interface EdgeIdentities {
  /** Replaces the rules. Streams of identities that are no longer allowed end within a second. */
  configure(rules: EdgeIdentityRules, fetch: FetchKeySet): void;
  /** Returns the caller with a token. Throws, or rejects with, the fault that the listener answers with. */
  callerWithToken(token: string): Caller | Promise<Caller>;
  /** Returns the caller with a certificate; undefined if certificates are no identity here. */
  callerWithCertificate(certificate: PeerCertificate): Caller | undefined;
}

const shownNames = 3;
const maxVerified = 20_000;

/** A valid token, which is looked at again twice a second while its stream is open. */
interface VerifiedEdge {
  readonly token: VerifiedToken;
  readonly caller: Caller;
}

export function createEdgeIdentities(world: World): EdgeIdentities {
  const keySets = createKeySets(world);
  let rules = noEdgeIdentities;
  let tokens: ((token: string) => Caller | Promise<Caller>) | undefined;

  function createTokens(
    { issuer, grants }: NonNullable<EdgeIdentityRules["serviceAccounts"]>,
    fetch: FetchKeySet,
  ): (token: string) => Caller | Promise<Caller> {
    const verifier = createTokenVerifier({ issuers: [issuer], keysOf: keySets([issuer], fetch), world });
    const verified = createLateCache<VerifiedEdge>({ max: maxVerified });

    async function verify(text: string, digest: string): Promise<Caller> {
      const token = await verifier.verify(text);
      const { subject: name, endsAtMs } = token;
      const environments = environmentsOfAccount(grants, name);
      if (environments === undefined) {
        const message = `no rule allows ${name} to follow as an edge`;
        throw new Fault("identity_not_allowed", message, { metadata: { identity: name }, hint: allowHint });
      }
      const caller = callerOf({ kind: "service_account", name, environments, endsAtMs });
      verified.set(digest, { token, caller });
      return caller;
    }

    return (text) => {
      const digest = digestOf(text);
      const known = verified.get(digest);
      if (known === undefined) return verify(text, digest);
      requireNotEnded(known.token, world.now());
      return isStillValid(known.token, world.now()) ? known.caller : verify(text, digest);
    };
  }

  return {
    configure(wanted, fetch) {
      rules = wanted;
      const { serviceAccounts } = wanted;
      tokens = serviceAccounts && createTokens(serviceAccounts, fetch);
    },
    callerWithToken(token) {
      if (tokens !== undefined) return tokens(token);
      const message = "service-account tokens are not accepted here";
      throw new Fault("identity_refused", message, { hint: "configure `edges.service_accounts` of the brokers" });
    },
    callerWithCertificate({ names, endsAtMs }) {
      if (rules.certificates.length === 0) return undefined;
      const grants = rules.certificates.filter(({ name }) => names.includes(name));
      const [grant] = grants;
      if (grant === undefined) {
        const shown = names.slice(0, shownNames).join(", ").slice(0, 300) || "a certificate without names";
        const message = `no rule allows ${shown} to follow as an edge`;
        const hint = "add one of its names to `edges.certificates` in the brokers' configuration file";
        throw new Fault("identity_not_allowed", message, { metadata: { identity: names[0] ?? "" }, hint });
      }
      if (new Set(grants.map(({ name }) => name)).size > 1) {
        const message = "the certificate has several names of `edges.certificates`; it must have exactly one";
        throw new Fault("identity_refused", message, { metadata: { identity: grant.name } });
      }
      if (endsAtMs <= world.now()) {
        throw new Fault("identity_refused", "the client certificate has expired", {
          metadata: { identity: grant.name },
        });
      }
      const environments = [...new Set(grants.flatMap((one) => one.environments))];
      return callerOf({ kind: "certificate", name: grant.name, environments, endsAtMs });
    },
  };
}

const allowHint = "add it to `edges.service_accounts.allow` in the brokers' configuration file";

const edgeScopes: ReadonlySet<Scope> = new Set([Scope.EDGE]);

const callerOf = (edge: EdgeIdentity): Caller => ({
  keyId: edge.name,
  environment: edge.environments.length === 1 ? edge.environments[0] : undefined,
  scopes: edgeScopes,
  edge,
});
