import type { ChallengeRules } from "../../gen/latchkey/v1/provider_pb.ts";
import type { NotificationReading } from "./reading.ts";

/** The response to a provider that verifies the webhook URL and sends no event yet. */
export interface ChallengeAnswer {
  readonly status: 200;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Longer than any challenge; longer values are not echoed. */
const maxLength = 4_096;

/**
 * Returns the response to a challenge; undefined if the notification is not a challenge. Challenges are answered before
 * anything is proven, since some providers ask before a secret exists. So the response only echoes what the sender
 * sent, and never as a page that a browser would run.
 */
export function challengeAnswer(
  rules: ChallengeRules | undefined,
  reading: NotificationReading,
): ChallengeAnswer | undefined {
  if (rules === undefined) return undefined;
  const { query, body, header, contentType, when, is } = rules;
  if (when !== "" && reading.textsAt(when)[0] !== is) return undefined;
  if (header !== "") return inHeader(header, reading.header(header));
  const value = query === "" ? reading.textsAt(body)[0] : reading.query(query);
  if (value === undefined || value === "" || value.length > maxLength) return undefined;
  if (contentType !== "application/json") return answer("text/plain", value);
  return answer("application/json", JSON.stringify({ [lastName(query === "" ? body : query)]: value }));
}

function inHeader(name: string, value: string | undefined): ChallengeAnswer | undefined {
  // Allows only characters that every header field can hold.
  if (value === undefined || value.length > maxLength || !/^[\x21-\x7e]+$/.test(value)) return undefined;
  const { headers, ...rest } = answer("text/plain", "");
  return { ...rest, headers: { [name]: value, ...headers } };
}

const answer = (type: string, body: string): ChallengeAnswer => ({
  status: 200,
  headers: { "content-type": `${type}; charset=utf-8`, "x-content-type-options": "nosniff" },
  body,
});

const lastName = (path: string): string =>
  path
    .split(/(?<!\\)\./)
    .at(-1)
    ?.replaceAll("\\.", ".") ?? "";
