import type { TokenFailureKind } from "./tokens.ts";

/** A token endpoint's refusal, before it is known what it means. */
export interface TokenRefusal {
  /** Of the answer. */
  readonly status: number;
  /** As it stands there; undefined where it says none that is one. */
  readonly code: string | undefined;
  readonly grant: string;
  readonly rules: DeadErrors;
}

/** What a provider's description says of its error codes. */
export interface DeadErrors {
  readonly deadGrantErrors: readonly string[];
  readonly deadClientErrors: readonly string[];
}

/** RFC 6749, section 5.2. */
const deadGrants = ["invalid_grant"];
const deadClients = ["invalid_client", "unauthorized_client"];
/** Sections 4.1.2.1 and 5.2, RFC 8707, RFC 9396, RFC 9449: asked again in the same way, they come again. */
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
/** RFC 8628, section 3.5; elsewhere they are codes like any other. */
const ofDevices: Readonly<Record<string, TokenFailureKind>> = {
  authorization_pending: "pending",
  slow_down: "slow_down",
  expired_token: "grant_dead",
  access_denied: "grant_dead",
};
/** Nothing of OAuth listens there, or not for what was sent. */
const wrongPlace = [404, 405, 406, 410, 411, 413, 414, 415];
/** RFC 9110, 15.6.3 and 15.6.5: what is behind them may have done what was asked. */
const ofGateways = [502, 504];

/**
 * What a refusal means for what was asked with. Terminal only on proof: a code that nobody has heard of passes, as
 * does whatever comes with a status that says that something is broken or too much.
 */
export function kindOf({ status, code, grant, rules }: TokenRefusal): TokenFailureKind {
  if (status >= 300 && status < 400) return "misconfigured";
  const isBroken = status === 429 || status >= 500;
  if (isBroken) return code === undefined && ofGateways.includes(status) ? "uncertain" : "passing";
  const lower = code?.toLowerCase();
  if (lower === undefined) return wrongPlace.includes(status) ? "misconfigured" : "passing";
  const isOne = (codes: readonly string[]) => codes.some((one) => one.toLowerCase() === lower);
  // What the provider's description says of a code counts for more than the RFC.
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
  /** What is refused with a 401 is a JWT that the integration's key has signed, and nothing of the connection's. */
  readonly isByIntegrationKey: boolean;
  /** The connection is named in the address: what is not found there is the connection. */
  readonly isConnectionInUrl: boolean;
}

/** The same of an exchange that a provider's description makes up: no RFC names its codes, so that the status must do. */
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

/** OAuth 1.0a has no codes either; those of the Problem Reporting extension are all there is, in `oauth_problem`. */
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

/** What may be shown of a code: a word, and none that was sent. */
export function shownCode(code: string | undefined, secrets: readonly string[]): string | undefined {
  if (code === undefined || !/^[A-Za-z][A-Za-z0-9_.:-]{0,63}$/.test(code)) return undefined;
  // Some echo what they do not like.
  return secrets.some((secret) => secret.length > 0 && (code.includes(secret) || secret.includes(code)))
    ? undefined
    : code;
}
