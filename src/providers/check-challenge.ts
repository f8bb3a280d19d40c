import type { Mistake } from "../base/fault.ts";
import type { ChallengeProof, ChallengeRules, NotificationRules } from "../gen/latchkey/v1/provider_pb.ts";
import { checkHosts } from "./check-sender-key.ts";
import { checkHeaderName, isOneSet } from "./check-value-rule.ts";
import { mistake } from "./mistake.ts";

const at = (name: string) => `notification.challenge.${name}`;

/** Headers that only a webhook's receiver sends. Strangers choose the value, so the name must have no other meaning. */
const answerHeaderForm = /^(?:x-[a-z0-9-]+|[a-z0-9-]*(?:hook|challenge|verification|validation)[a-z0-9-]*)$/;

/** Checks that an answer to a stranger gives nothing away. */
export function checkChallenge(rules: ChallengeRules, of: NotificationRules, settings: readonly string[]): Mistake[] {
  const { query, body, header, contentType, answer, answerHeader, method, proof } = rules;
  const used = [...answer.matchAll(/\$\{([^}]*)\}?/g)].map(([, name = ""]) => name);
  const isEmpty = rules.status === 204;
  const needsValue =
    (answer === "" && !isEmpty) || used.includes("challenge") || answerHeader !== "" || proof !== undefined;
  const hasValue = isOneSet([query, body, header]);
  const hasNone = query + body + header === "";
  const isEcho = header !== "" && answer === "" && answerHeader === "";
  return [
    ...(hasValue || (hasNone && (!needsValue || rules.confirmUrl !== ""))
      ? []
      : [mistake(at("query"), "or body or header must name the value to echo")]),
    ...Object.entries({ header, answer_header: answerHeader, when_header: rules.whenHeader }).flatMap(
      ([name, value]) => (value === "" ? [] : checkHeaderName(value, at(name))),
    ),
    ...(["", "text/plain", "application/json"].includes(contentType)
      ? []
      : [mistake(at("content_type"), "must be text/plain or application/json")]),
    // Strangers choose the value, so the header must not have a meaning for the receiver of the response.
    ...(isEcho && !header.startsWith("x-")
      ? [mistake(at("header"), "must be a header of the provider that begins with x-")]
      : []),
    ...(answerHeader === "" || answerHeaderForm.test(answerHeader)
      ? []
      : [mistake(at("answer_header"), "must begin with x-, or contain hook, challenge, verification or validation")]),
    ...(used.every((name) => name === "challenge" || (name === "proof" && proof !== undefined))
      ? []
      : [mistake(at("answer"), "may contain only ${challenge}, and ${proof} if there is one")]),
    ...(contentType === "application/json" && answer !== "" && !isJson(answer)
      ? [mistake(at("answer"), "must be JSON")]
      : []),
    ...(isEmpty && answer !== "" ? [mistake(at("answer"), "must be empty for the status 204")] : []),
    ...(["", "GET", "POST"].includes(method) ? [] : [mistake(at("method"), "must be GET or POST")]),
    ...checkCondition(rules, hasNone),
    ...checkToken(rules, settings),
    ...checkConfirmation(rules),
    ...(proof === undefined ? [] : checkProof(proof, rules, of)),
  ];
}

function checkCondition(rules: ChallengeRules, hasNone: boolean): Mistake[] {
  const { when, whenQuery, whenHeader, is, answer, confirmUrl } = rules;
  const places = [when, whenQuery, whenHeader].filter((place) => place !== "");
  return [
    ...((places.length === 0) === (is === "") ? [] : [mistake(at("when"), "and is must be set together")]),
    ...(places.length > 1 ? [mistake(at("when"), "or when_query or when_header must be removed")] : []),
    // Without a condition, every notification would be a challenge.
    ...(hasNone && places.length === 0 && (answer !== "" || confirmUrl !== "" || rules.status === 204)
      ? [mistake(at("when"), "is required for an answer without a value")]
      : []),
  ];
}

function checkToken({ tokenQuery, tokenSetting }: ChallengeRules, settings: readonly string[]): Mistake[] {
  if (tokenQuery === "" && tokenSetting === "") return [];
  return tokenQuery !== "" && settings.includes(tokenSetting)
    ? []
    : [mistake(at("token_setting"), "must name an integration setting, together with token_query")];
}

function checkConfirmation({ confirmUrl, confirmHosts, proven }: ChallengeRules): Mistake[] {
  if (confirmUrl === "") return confirmHosts.length === 0 ? [] : [mistake(at("confirm_url"), "is required with hosts")];
  return [
    ...(confirmHosts.length === 0 ? [mistake(at("confirm_hosts"), "is required with confirm_url")] : []),
    ...checkHosts(confirmHosts, at("confirm_hosts")),
    // Otherwise a stranger would make Latchkey send requests.
    ...(proven ? [] : [mistake(at("proven"), "must be true with confirm_url")]),
  ];
}

/** Schemes whose signatures cannot be had by a challenge: see `isChallengeContent`. */
const separate = ["", "hmac", "standard_webhooks", "public_key", "jwt", "jwt_secret"];

/**
 * A stranger chooses the challenge. What is signed for it must never be what a webhook is signed by: the texts of
 * challenges have a form of their own, and the description must not put it into the form of a webhook.
 */
function checkProof({ kind, content }: ChallengeProof, rules: ChallengeRules, of: NotificationRules): Mistake[] {
  const used = [...content.matchAll(/\$\{([^}]*)\}?/g)].map(([, name = ""]) => name);
  const schemes = [of.signature?.scheme ?? "", ...of.furtherSignatures.map(({ scheme }) => scheme)];
  const owners = [of.signature, ...of.furtherSignatures].map((one) => one?.keyOwner ?? "");
  return [
    ...(rules.query + rules.body + rules.header === "" ? [mistake(at("proof"), "needs a value to sign")] : []),
    ...(used.every((name) => ["challenge", "secret", "url"].includes(name))
      ? []
      : [mistake(at("proof.content"), "may contain only ${challenge}, ${secret} and ${url}")]),
    ...(kind === "hmac" && !rules.proven && !["", "${challenge}"].includes(content)
      ? [mistake(at("proof.content"), "must be empty, or the content of a webhook could be signed for a stranger")]
      : []),
    ...(kind === "hash" && !(used.includes("secret") && used.includes("challenge"))
      ? [mistake(at("proof.content"), "must contain ${challenge} and ${secret} for a hash")]
      : []),
    // A token is short and sent as it is: a proof would let a stranger try guesses.
    ...(schemes.every((scheme) => separate.includes(scheme))
      ? []
      : [mistake(at("proof"), "must not be made with a token that webhooks contain")]),
    ...(owners.includes("channel") ? [mistake(at("proof"), "must not be made with the key of a channel")] : []),
  ];
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    // The author of the description has to find the error.
    return false;
  }
}
