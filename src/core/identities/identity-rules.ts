import type { AccessLimits, Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { isAccountWithin, readAccountSubject, type ServiceAccount } from "./service-account.ts";
import { isMatchedBy, readSpiffeId, type SpiffePattern } from "./spiffe.ts";
import type { VerificationKey } from "./verification-keys.ts";

/** Rules for callers without a key: who vouches for them, and what each may do. */
export interface IdentityRules {
  readonly issuers: readonly TokenIssuer[];
  /** The trust domain whose X.509-SVIDs count, if the listener's authorities have verified them. */
  readonly certificateDomain: string | undefined;
  /** The first grant that fits a caller counts. */
  readonly grants: readonly IdentityGrant[];
}

export const noIdentities: IdentityRules = { issuers: [], certificateDomain: undefined, grants: [] };

/** Rules for edges without a key: identities, and the environments that each may follow. */
export interface EdgeIdentityRules {
  /** Undefined: tokens of service accounts are refused. */
  readonly serviceAccounts: ServiceAccountRules | undefined;
  /** Empty: client certificates are no identity. */
  readonly certificates: readonly CertificateGrant[];
}

export const noEdgeIdentities: EdgeIdentityRules = { serviceAccounts: undefined, certificates: [] };

/** An issuer of tokens (JWT, RFC 7519). */
export type TokenIssuer = AccountIssuer | SpiffeIssuer | UserIssuer;

interface IssuerKeyRules {
  /** Where messages send the operator, such as `identities.issuers.0`. */
  readonly setting: string;
  readonly name: string;
  readonly audience: string;
  readonly keys: KeySetPlace;
}

/** A Kubernetes cluster, which issues tokens of service accounts. */
export interface AccountIssuer extends IssuerKeyRules {
  readonly kind: "service_account";
  readonly issuer: string;
}

/** A SPIFFE trust domain, which issues JWT-SVIDs. */
export interface SpiffeIssuer extends IssuerKeyRules {
  readonly kind: "spiffe";
  readonly trustDomain: string;
  /** Undefined: any; the standard requires none. */
  readonly issuer: string | undefined;
}

/**
 * An OAuth 2.0 authorization server, which issues access tokens for people who use the MCP endpoint. The audience is
 * the URL of the endpoint.
 */
export interface UserIssuer extends IssuerKeyRules {
  readonly kind: "user";
  readonly issuer: string;
}

export interface ServiceAccountRules {
  readonly issuer: AccountIssuer;
  readonly grants: readonly AccountGrant[];
}

/** Where an issuer's public keys are. */
export type KeySetPlace = KeySetFile | KeySetUrl;

/** A file, which is read again: it may be replaced at any time. */
export interface KeySetFile {
  readonly kind: "file";
  readonly path: string;
  /** The keys that were in it when the configuration was read. */
  readonly keys: readonly VerificationKey[];
}

export interface KeySetUrl {
  readonly kind: "url";
  /** Undefined: found through the issuer (OpenID Connect Discovery 1.0, section 4). */
  readonly url: string | undefined;
  readonly issuer: string;
  /** PEM of further authorities. */
  readonly ca: string | undefined;
  /** File with a token for these requests; undefined: they need none. */
  readonly tokenFile: string | undefined;
}

export interface AccountGrant extends ServiceAccount {
  readonly environments: readonly string[];
}

export interface CertificateGrant {
  /** `URI:…`, `DNS:…` or `CN:…`. */
  readonly name: string;
  readonly environments: readonly string[];
}

/** A rule: a caller, and what it may do. */
export interface IdentityGrant {
  readonly subject: GrantSubject;
  /** Undefined: all environments, with the scope `admin`. */
  readonly environment: string | undefined;
  readonly scopes: readonly Scope[];
  readonly limits: AccessLimits | undefined;
}

export type GrantSubject =
  | { readonly kind: "service_account"; readonly issuer: string; readonly account: ServiceAccount }
  | { readonly kind: "spiffe"; readonly pattern: SpiffePattern }
  | { readonly kind: "user"; readonly issuer: string /** `*`: all. */; readonly name: string }
  | { readonly kind: "certificate"; readonly name: string }
  | { readonly kind: "uid"; readonly uid: number }
  | { readonly kind: "socket"; readonly path: string };

/** What a caller has proven. */
export type ProvenSubject =
  | { readonly kind: "service_account"; readonly issuer: string; readonly subject: string }
  | { readonly kind: "spiffe"; readonly id: string }
  | { readonly kind: "user"; readonly issuer: string; readonly subject: string }
  | { readonly kind: "certificate"; readonly names: readonly string[] }
  | { readonly kind: "uid"; readonly uid: number }
  | { readonly kind: "socket"; readonly path: string };

/** Returns the first grant for a subject; undefined if there is none. */
export function grantFor(grants: readonly IdentityGrant[], proven: ProvenSubject): IdentityGrant | undefined {
  switch (proven.kind) {
    case "service_account": {
      const account = readAccountSubject(proven.subject);
      return (
        account &&
        grants.find(
          ({ subject }) =>
            subject.kind === "service_account" &&
            subject.issuer === proven.issuer &&
            isAccountWithin(account, subject.account),
        )
      );
    }
    case "spiffe": {
      const id = readSpiffeId(proven.id);
      return id && grants.find(({ subject }) => subject.kind === "spiffe" && isMatchedBy(id, subject.pattern));
    }
    case "user":
      return grants.find(
        ({ subject }) =>
          subject.kind === "user" &&
          subject.issuer === proven.issuer &&
          (subject.name === "*" || subject.name === proven.subject),
      );
    case "certificate":
      return grants.find(({ subject }) => subject.kind === "certificate" && proven.names.includes(subject.name));
    case "uid":
      return grants.find(({ subject }) => subject.kind === "uid" && subject.uid === proven.uid);
    case "socket":
      return grants.find(({ subject }) => subject.kind === "socket" && subject.path === proven.path);
  }
}

/** Returns the environments of a service account, by the subject of its token. Undefined: it may not follow. */
export function environmentsOfAccount(grants: readonly AccountGrant[], subject: string): readonly string[] | undefined {
  const account = readAccountSubject(subject);
  if (account === undefined) return undefined;
  const fitting = grants.filter((one) => isAccountWithin(account, one));
  return fitting.length === 0 ? undefined : [...new Set(fitting.flatMap(({ environments }) => environments))];
}
