import type { TokenFailureKind } from "./tokens.ts";

/** An error response of a token endpoint, before its classification. */
export interface TokenRefusal {
  /** Status of the response. */
  readonly status: number;
  /** Error code as received; undefined if there is no valid one. */
  readonly code: string | undefined;
  readonly grant: string;
  readonly rules: DeadErrors;
}

/** The error codes that the provider's description classifies. */
export interface DeadErrors {
  readonly deadGrantErrors: readonly string[];
  readonly deadClientErrors: readonly string[];
}

/** RFC 6749, section 5.2. */
const deadGrants = ["invalid_grant"];
const deadClients = ["invalid_client", "unauthorized_client"];
/** Sections 4.1.2.1 and 5.2, RFC 8707, RFC 9396, RFC 9449: the same request would fail again. */
const misconfigured = [
  "invalid_request",
  "invalid_scope",
  "unsupported_grant_type",
  "unsupported_response_type",
  "invalid_target",
  "invalid_authorization_details",
  "invalid_dpop_proof",
  "redirect_uri_mismatch",
];
/** RFC 8628, section 3.5; special only for device codes. */
const ofDevices: Readonly<Record<string, TokenFailureKind>> = {
  authorization_pending: "pending",
  slow_down: "slow_down",
  expired_token: "grant_dead",
  access_denied: "grant_dead",
};
/** Statuses of a URL that is no token endpoint, or does not accept the request's form. */
const wrongPlace = [404, 405, 406, 410, 411, 413, 414, 415];
/** RFC 9110, 15.6.3 and 15.6.5: the server behind the gateway may have processed the request. */
const ofGateways = [502, 504];

/**
 * Classifies an error response. Final only with proof: an unknown code counts as temporary, as does any response whose
 * status signals a failure or an overload.
 */
export function kindOf({ status, code, grant, rules }: TokenRefusal): TokenFailureKind {
  if (status >= 300 && status < 400) return "misconfigured";
  const isBroken = status === 429 || status >= 500;
  if (isBroken) return code === undefined && ofGateways.includes(status) ? "uncertain" : "passing";
  const lower = code?.toLowerCase();
  if (lower === undefined) return wrongPlace.includes(status) ? "misconfigured" : "passing";
  const isOne = (codes: readonly string[]) => codes.some((one) => one.toLowerCase() === lower);
  // The provider's description takes precedence over the RFC.
  if (isOne(rules.deadGrantErrors)) return "grant_dead";
  if (isOne(rules.deadClientErrors)) return "client_refused";
  const ofDevice = grant === "device_code" && Object.hasOwn(ofDevices, lower) ? ofDevices[lower] : undefined;
  if (ofDevice !== undefined) return ofDevice;
  if (isOne(deadGrants)) return "grant_dead";
  if (isOne(deadClients)) return "client_refused";
  return isOne(misconfigured) ? "misconfigured" : "passing";
}

interface DescribedRefusal {
  readonly status: number;
  readonly code: string | undefined;
  /** A 401 refuses a JWT that the integration's key signed, not anything of the connection. */
  readonly isByIntegrationKey: boolean;
  /** The URL names the connection, so a "not found" refers to the connection. */
  readonly isConnectionInUrl: boolean;
}

/**
 * Classifies errors of an exchange defined by a provider's description: no RFC names its codes, so the status decides.
 */
export function describedKindOf({
  status,
  code,
  isByIntegrationKey,
  isConnectionInUrl,
}: DescribedRefusal): TokenFailureKind {
  if (status === 401) return isByIntegrationKey ? "client_refused" : "grant_dead";
  if (isConnectionInUrl && (status === 404 || status === 410)) return "grant_dead";
  return kindOf({ status, code, grant: "described", rules: { deadGrantErrors: [], deadClientErrors: [] } });
}

/**
 * OAuth 1.0a defines no codes either; the only ones are those of the Problem Reporting extension, in `oauth_problem`.
 */
const oauth1Problems: Readonly<Record<string, TokenFailureKind>> = {
  consumer_key_unknown: "client_refused",
  consumer_key_rejected: "client_refused",
  consumer_key_refused: "client_refused",
  signature_invalid: "client_refused",
  signature_method_rejected: "misconfigured",
  parameter_rejected: "misconfigured",
  parameter_absent: "misconfigured",
  version_rejected: "misconfigured",
  token_used: "grant_dead",
  token_expired: "grant_dead",
  token_revoked: "grant_dead",
  token_rejected: "grant_dead",
  verifier_invalid: "grant_dead",
  permission_denied: "grant_dead",
  user_refused: "grant_dead",
};

export function oauth1KindOf({ status, code }: Pick<TokenRefusal, "status" | "code">): TokenFailureKind {
  const kind = kindOf({ status, code, grant: "oauth1", rules: { deadGrantErrors: [], deadClientErrors: [] } });
  if (kind !== "passing" || status === 429 || status >= 500 || code === undefined) return kind;
  return Object.hasOwn(oauth1Problems, code) ? (oauth1Problems[code] ?? kind) : kind;
}

/** Returns the code if it may be shown: a word that was not part of the request's secrets. */
export function shownCode(code: string | undefined, secrets: readonly string[]): string | undefined {
  if (code === undefined || !/^[A-Za-z][A-Za-z0-9_.:-]{0,63}$/.test(code)) return undefined;
  // Some providers echo the value that they reject.
  return secrets.some((secret) => secret.length > 0 && (code.includes(secret) || secret.includes(code)))
    ? undefined
    : code;
}
