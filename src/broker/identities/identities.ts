import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { type EdgeIdentityRules, type KeySetPlace, noEdgeIdentities } from "../../core/identities/identity-rules.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import type { Caller, EdgeIdentity } from "../setup/caller.ts";
import { type AccountTokens, createAccountTokens } from "./account-tokens.ts";
import { createIssuerKeys, type FetchKeySet, type IssuerKeys } from "./issuer-keys.ts";

/** A client certificate that the listener has verified against its authorities. */
export interface EdgeCertificate {
  /** `URI:…` and `DNS:…` of its alternative names, and `CN:…` of its subject. */
  readonly names: readonly string[];
  readonly endsAtMs: number;
}

/** Identities of edges that have no key: service accounts of Kubernetes, and client certificates. */
export interface EdgeIdentities {
  /** Replaces the rules. Streams of identities that are no longer allowed end within a second. */
  configure(rules: EdgeIdentityRules, fetch: FetchKeySet): void;
  /** Returns the caller with a token. Throws, or rejects with, the fault that the listener answers with. */
  callerWithToken(token: string): Caller | Promise<Caller>;
  /** Returns the caller with a certificate; undefined if certificates are no identity here. */
  callerWithCertificate(certificate: EdgeCertificate): Caller | undefined;
}

/** Whether a secret has the form of a JWT, which no key has. */
export const isTokenForm = (secret: string): boolean => /^eyJ[\w-]*\.[\w-]*\.[\w-]*$/.test(secret);

const shownNames = 3;

export function createEdgeIdentities(world: World): EdgeIdentities {
  let rules = noEdgeIdentities;
  let tokens: AccountTokens | undefined;
  let keys: { readonly place: string; readonly issuer: IssuerKeys } | undefined;

  /** Keeps known keys where their place has not changed: a reload must not end streams while the issuer is away. */
  function keysAt(place: KeySetPlace, fetch: FetchKeySet): IssuerKeys {
    const text = JSON.stringify(place);
    if (keys?.place !== text) keys = { place: text, issuer: createIssuerKeys({ place, fetch, world }) };
    return keys.issuer;
  }

  return {
    configure(wanted, fetch) {
      rules = wanted;
      const { serviceAccounts } = wanted;
      tokens =
        serviceAccounts &&
        createAccountTokens({ rules: serviceAccounts, keys: keysAt(serviceAccounts.keys, fetch), world });
    },
    callerWithToken(token) {
      if (tokens === undefined) {
        const message = "service-account tokens are not accepted here";
        throw new Fault("identity_refused", message, { hint: "configure `edges.service_accounts` of the brokers" });
      }
      const proof = tokens.proofOf(token);
      return proof instanceof Promise ? proof.then(callerOf) : callerOf(proof);
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

const edgeScopes: ReadonlySet<Scope> = new Set([Scope.EDGE]);

const callerOf = (edge: EdgeIdentity): Caller => ({
  keyId: edge.name,
  environment: edge.environments.length === 1 ? edge.environments[0] : undefined,
  scopes: edgeScopes,
  edge,
});
