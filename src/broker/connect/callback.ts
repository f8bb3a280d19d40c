import { createHmac, hash, timingSafeEqual } from "node:crypto";
import type { CallbackSignature } from "../../gen/latchkey/v1/provider_pb.ts";

/** What an end user comes back with (RFC 6749, section 4.1.2; RFC 9207; RFC 5849, section 2.2). */
export interface CallbackAnswer {
  /** Of OAuth 1.0a the temporary token, which does the same; Twitter calls it `denied` where it was. */
  readonly state: string;
  readonly code: string | undefined;
  readonly verifier: string | undefined;
  readonly error: string | undefined;
  readonly iss: string | undefined;
  /** Why no part of the answer can be believed, as a code; undefined: it is well-formed. */
  readonly misuse: string | undefined;
  /** Further states in the same answer, which are used up with it. */
  readonly otherStates: readonly string[];
  /** As it came. */
  readonly parameters: URLSearchParams;
}

/** A state of ours has 43 characters; of OAuth 1.0a it is a provider's token. */
const maxStateLength = 1_024;

const stateNames = ["state", "oauth_token", "denied"];
const knownNames: ReadonlySet<string> = new Set([...stateNames, "code", "error", "iss", "oauth_verifier"]);
/** A repeated state costs a look-up each. */
const maxStates = 4;

/** Undefined for what can be the answer to no request of ours: no state, or one that no one made. */
export function readCallback(query: string): CallbackAnswer | undefined {
  const parameters = new URLSearchParams(query);
  const text = (name: string) => parameters.get(name) || undefined;
  const state = text("state") ?? text("oauth_token") ?? text("denied");
  if (state === undefined || state.length > maxStateLength) return undefined;
  return {
    state,
    code: text("code"),
    verifier: text("oauth_verifier"),
    // `denied` is Twitter's word for it, and the token its value; others say what is wrong in `oauth_problem`.
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
 * RFC 6749, section 3.1: no parameter may be there twice, and section 4.1.2: an answer brings a code or an error.
 * Which of the two would count is what an attacker wants to choose.
 */
function misuseOf(parameters: URLSearchParams): string | undefined {
  const repeated = [...new Set(parameters.keys())].find((name) => parameters.getAll(name).length > 1);
  if (repeated !== undefined) return knownNames.has(repeated) ? `repeated_${repeated}` : "repeated_parameter";
  const has = (name: string) => (parameters.get(name) ?? "") !== "";
  const isGranted = has("code") || has("oauth_verifier");
  return isGranted && ["error", "oauth_problem", "denied"].some(has) ? "code_with_error" : undefined;
}

/** The codes by which end users say no. */
export const isDenial = (error: string): boolean =>
  ["access_denied", "user_denied", "user_refused", "permission_denied", "consent_required"].includes(
    error.toLowerCase(),
  );

interface SignedCallback {
  readonly rule: CallbackSignature;
  readonly secret: string;
}

/** Whether an answer is signed as the provider signs it. */
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

/** In a time that says nothing of how much of it is the same. */
export const isSame = (one: string, other: string): boolean =>
  timingSafeEqual(hash("sha256", one, "buffer"), hash("sha256", other, "buffer"));
