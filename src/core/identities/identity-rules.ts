import type { SignerKey } from "../notifications/jwt.ts";

/** Rules for edges without a key: identities, and the environments that each may follow. */
export interface EdgeIdentityRules {
  /** Undefined: tokens of service accounts are refused. */
  readonly serviceAccounts: ServiceAccountRules | undefined;
  /** Empty: client certificates are no identity. */
  readonly certificates: readonly CertificateGrant[];
}

export const noEdgeIdentities: EdgeIdentityRules = { serviceAccounts: undefined, certificates: [] };

/** Tokens of Kubernetes service accounts (JWT, RFC 7519). */
export interface ServiceAccountRules {
  readonly issuer: string;
  readonly audience: string;
  readonly keys: KeySetPlace;
  readonly grants: readonly AccountGrant[];
}

/** Where the issuer's public keys are: in the configuration, or at a URL. */
export type KeySetPlace =
  | { readonly kind: "given"; readonly keys: readonly SignerKey[] }
  | {
      readonly kind: "fetched";
      /** Undefined: found through the issuer (OpenID Connect Discovery 1.0, section 4). */
      readonly url: string | undefined;
      readonly issuer: string;
      /** PEM of further authorities. */
      readonly ca: string | undefined;
      /** File with a token for these requests; undefined: they need none. */
      readonly tokenFile: string | undefined;
    };

export interface AccountGrant {
  readonly namespace: string;
  /** `*`: every account of the namespace. */
  readonly name: string;
  readonly environments: readonly string[];
}

export interface CertificateGrant {
  /** `URI:…`, `DNS:…` or `CN:…`. */
  readonly name: string;
  readonly environments: readonly string[];
}

const subjectForm = /^system:serviceaccount:([a-z0-9-]{1,63}):([a-z0-9.-]{1,253})$/;

/** Returns the environments of a service account, by the subject of its token. Undefined: it may not follow. */
export function environmentsOfAccount(grants: readonly AccountGrant[], subject: string): readonly string[] | undefined {
  const [, namespace, name] = subjectForm.exec(subject) ?? [];
  const fitting = grants.filter((one) => one.namespace === namespace && (one.name === "*" || one.name === name));
  return fitting.length === 0 ? undefined : [...new Set(fitting.flatMap(({ environments }) => environments))];
}

export const isAccountSubject = (subject: string): boolean => subjectForm.test(subject);
