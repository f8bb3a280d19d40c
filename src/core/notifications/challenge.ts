import { createHash, createHmac } from "node:crypto";
import type { ChallengeProof, ChallengeRules, SignatureRules } from "../../gen/latchkey/v1/provider_pb.ts";
import { isHostAllowed } from "../../providers/host-pattern.ts";
import { isChallengeText } from "./challenge-text.ts";
import type { NotificationReading } from "./reading.ts";
import { isSame, sha256 } from "./schemes/constant-time.ts";
import { secretsIn } from "./schemes/scheme.ts";
import { sharedKeyOf } from "./schemes/shared-key.ts";

/** The response to a provider that verifies the webhook URL and sends no event yet. */
export interface ChallengeAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** A request that verifies the webhook URL. */
export interface Challenge {
  readonly rules: ChallengeRules;
  /** Chosen by the sender; empty if the answer needs none. */
  readonly value: string;
}

/** What a challenge is compared with, and answered by. */
export interface ChallengeContext {
  readonly method: string;
  /** The webhook URL as the request has it, with the parameter of the challenge. */
  readonly url: string;
  /** Returns a value of the integration. */
  readonly settings: (name: string) => string | undefined;
  readonly signature: SignatureRules | undefined;
  /** The result of `webhookSecret`; empty: none. */
  readonly secret: string;
}

/** Longer than any challenge; longer values are not echoed. */
const maxLength = 4_096;

/** Returns undefined if the request is not a challenge. */
export function challengeIn(
  rules: ChallengeRules | undefined,
  reading: NotificationReading,
  method: string,
): Challenge | undefined {
  if (rules === undefined || (rules.method !== "" && rules.method !== method)) return undefined;
  if (!isMeant(rules, reading)) return undefined;
  const { query, body, header } = rules;
  if (query === "" && body === "" && header === "") return { rules, value: "" };
  const value = query !== "" ? reading.query(query) : body !== "" ? reading.textsAt(body)[0] : reading.header(header);
  if (value === undefined || value === "" || value.length > maxLength) return undefined;
  return isInHeader(rules) && !fieldForm.test(value) ? undefined : { rules, value };
}

function isMeant({ when, whenQuery, whenHeader, is }: ChallengeRules, reading: NotificationReading): boolean {
  if (when !== "" && reading.textsAt(when)[0] !== is) return false;
  if (whenQuery !== "" && reading.query(whenQuery) !== is) return false;
  return whenHeader === "" || reading.header(whenHeader) === is;
}

/** Allows only characters that every header field can hold. */
const fieldForm = /^[\x21-\x7e]+$/;

const isInHeader = ({ header, answer, answerHeader }: ChallengeRules): boolean =>
  answerHeader !== "" || (header !== "" && answer === "");

/** Reports whether the sender knows the text that the operator has entered at the provider. */
export function knowsToken(
  { tokenQuery, tokenSetting }: ChallengeRules,
  reading: NotificationReading,
  settings: ChallengeContext["settings"],
): boolean {
  if (tokenQuery === "") return true;
  const wanted = settings(tokenSetting) ?? "";
  const sent = reading.query(tokenQuery);
  return wanted !== "" && sent !== undefined && isSame(sha256(sent), sha256(wanted));
}

/** Reports whether an answer depends on secrets, which another replica may have changed a moment ago. */
export const usesSecrets = ({ proof, proven, tokenQuery, confirmUrl }: ChallengeRules): boolean =>
  proof !== undefined || proven || tokenQuery !== "" || confirmUrl !== "";

/** Returns the URL to fetch so that the sender begins; undefined if there is none that may be fetched. */
export function confirmationOf({ confirmUrl, confirmHosts }: ChallengeRules, reading: NotificationReading) {
  const [text = ""] = reading.textsAt(confirmUrl);
  if (text.length > maxLength || !URL.canParse(text)) return undefined;
  const { protocol, username, password, port, hash, hostname } = new URL(text);
  const isPlain = protocol === "https:" && username + password + port + hash === "";
  return isPlain && isHostAllowed(hostname, confirmHosts) ? text : undefined;
}

/**
 * Returns the response to a challenge; undefined if it needs a secret that is not there, or is a text that must not be
 * signed. Most challenges are answered before anything is proven, since some providers ask before a secret exists. So
 * the response only echoes what the sender sent, and never as a page that a browser would run.
 */
export function challengeAnswer({ rules, value }: Challenge, context: ChallengeContext): ChallengeAnswer | undefined {
  const { query, body, header, contentType, answer, answerHeader } = rules;
  // The provider was given the URL without its challenge.
  const url = withoutParameter(context.url, query);
  const proof = rules.proof === undefined ? "" : proofIn(rules.proof, value, { ...context, url });
  if (proof === undefined) return undefined;
  const isJson = contentType === "application/json";
  const name = answerHeader || (isInHeader(rules) ? header : "");
  const fields = name === "" ? {} : { [name]: value };
  return {
    status: rules.status || 200,
    headers: {
      ...fields,
      "content-type": `${isJson ? "application/json" : "text/plain"}; charset=utf-8`,
      "x-content-type-options": "nosniff",
    },
    body:
      answer !== ""
        ? filled(answer, { challenge: value, proof }, isJson)
        : name !== ""
          ? ""
          : isJson
            ? JSON.stringify({ [lastName(query === "" ? body : query)]: value })
            : value,
  };
}

const filled = (answer: string, values: Readonly<Record<string, string>>, isJson: boolean): string =>
  answer.replace(/\$\{(challenge|proof)\}/g, (_, name: string) => {
    const value = values[name] ?? "";
    return isJson ? JSON.stringify(value).slice(1, -1) : value;
  });

/** Removes a parameter of the query, and leaves the rest as it is written. */
function withoutParameter(url: string, name: string): string {
  const at = url.indexOf("?");
  if (name === "" || at === -1) return url;
  const kept = url
    .slice(at + 1)
    .split("&")
    .filter((pair) => !new URLSearchParams(pair).has(name));
  return kept.length === 0 ? url.slice(0, at) : `${url.slice(0, at)}?${kept.join("&")}`;
}

function proofIn(
  { kind, hash, encoding, prefix, content }: ChallengeProof,
  challenge: string,
  { signature, secret, url }: ChallengeContext,
): string | undefined {
  // A text of any other form could be the content of a webhook.
  if (!isChallengeText(challenge)) return undefined;
  // The newest secret: the provider was told this one.
  const [newest] = secretsIn(secret);
  if (newest === undefined) return undefined;
  const values: Readonly<Record<string, string>> = { challenge, secret: newest, url };
  const text = (content || "${challenge}").replace(/\$\{(\w+)\}/g, (_, name: string) => values[name] ?? "");
  const made =
    kind === "hash"
      ? createHash(hash || "sha256")
      : createHmac(hash || "sha256", signature === undefined ? newest : sharedKeyOf(signature, newest));
  return prefix + made.update(text).digest(encoding === "base64" ? "base64" : "hex");
}

const lastName = (path: string): string =>
  path
    .split(/(?<!\\)\./)
    .at(-1)
    ?.replaceAll("\\.", ".") ?? "";
