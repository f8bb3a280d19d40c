import { createHmac, hash, timingSafeEqual } from "node:crypto";
import type { CallbackSignature } from "../../../gen/latchkey/v1/provider_pb.ts";

/** The response in a provider's redirect (RFC 6749, section 4.1.2; RFC 9207; RFC 5849, section 2.2). */
export interface CallbackAnswer {
  /** The state; for OAuth 1.0a, the temporary token serves as one. Twitter sends it as `denied` after a refusal. */
  readonly state: string;
  readonly code: string | undefined;
  readonly verifier: string | undefined;
  readonly error: string | undefined;
  readonly iss: string | undefined;
  /** The reason why no part of the response can be trusted, as a code; undefined: the response is well-formed. */
  readonly misuse: string | undefined;
  /** Other states in the same response, which are used up with it. */
  readonly otherStates: readonly string[];
  /** The parameters as received. */
  readonly parameters: URLSearchParams;
}

/** Our states have 43 characters; for OAuth 1.0a, the state is a provider's token. */
const maxStateLength = 1_024;

const stateNames = ["state", "oauth_token", "denied"];
const knownNames: ReadonlySet<string> = new Set([...stateNames, "code", "error", "iss", "oauth_verifier"]);
/** Limit, since each repeated state costs a lookup. */
const maxStates = 4;

/** Returns undefined if the response cannot belong to a request of ours: without a state, or with an impossible one. */
export function readCallback(query: string): CallbackAnswer | undefined {
  const parameters = new URLSearchParams(query);
  const text = (name: string) => parameters.get(name) || undefined;
  const state = text("state") ?? text("oauth_token") ?? text("denied");
  if (state === undefined || state.length > maxStateLength) return undefined;
  return {
    state,
    code: text("code"),
    verifier: text("oauth_verifier"),
    // Twitter sends `denied` with the token as its value; others send the error in `oauth_problem`.
    error: text("error") ?? text("oauth_problem") ?? (parameters.has("denied") ? "access_denied" : undefined),
    iss: text("iss"),
    misuse: misuseOf(parameters),
    otherStates: statesIn(parameters).filter((one) => one !== state),
    parameters,
  };
}

const statesIn = (parameters: URLSearchParams): string[] => {
  const all = stateNames.flatMap((name) => parameters.getAll(name));
  return [...new Set(all)].filter((one) => one !== "" && one.length <= maxStateLength).slice(0, maxStates);
};

/**
 * RFC 6749, section 3.1: no parameter may be repeated; section 4.1.2: a response has a code or an error. With both, an
 * attacker could choose which one counts.
 */
function misuseOf(parameters: URLSearchParams): string | undefined {
  const repeated = [...new Set(parameters.keys())].find((name) => parameters.getAll(name).length > 1);
  if (repeated !== undefined) return knownNames.has(repeated) ? `repeated_${repeated}` : "repeated_parameter";
  const has = (name: string) => (parameters.get(name) ?? "") !== "";
  const isGranted = has("code") || has("oauth_verifier");
  return isGranted && ["error", "oauth_problem", "denied"].some(has) ? "code_with_error" : undefined;
}

/** The codes of a refusal by the end user. */
export const isDenial = (error: string): boolean =>
  ["access_denied", "user_denied", "user_refused", "permission_denied", "consent_required"].includes(
    error.toLowerCase(),
  );

interface SignedCallback {
  readonly rule: CallbackSignature;
  readonly secret: string;
}

/** Whether a response has the provider's signature. */
export function isSignedCallback(parameters: URLSearchParams, { rule, secret }: SignedCallback): boolean {
  const given = parameters.get(rule.parameter);
  if (given === null || secret === "") return false;
  const content = [...parameters]
    .filter(([name]) => name !== rule.parameter)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => `${name}=${value}`)
    .join("&");
  const encoding = rule.encoding === "base64" ? "base64" : "hex";
  const wanted = createHmac(rule.hash || "sha256", secret)
    .update(content)
    .digest(encoding);
  return isSame(given, wanted);
}

/** Compares in constant time, so that timing reveals no common part. */
export const isSame = (one: string, other: string): boolean =>
  timingSafeEqual(hash("sha256", one, "buffer"), hash("sha256", other, "buffer"));
