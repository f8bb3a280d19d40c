import type { Mistake } from "../base/fault.ts";
import type { NotificationAnswer, NotificationRules } from "../gen/latchkey/v1/provider_pb.ts";
import { checkChallenge } from "./check-challenge.ts";
import { checkSignature } from "./check-signature.ts";
import { checkHeaderName, checkValueRule } from "./check-value-rule.ts";
import { mistake } from "./mistake.ts";

/** Checks what the schema cannot express: that names refer to values, and that the proof is sound. */
export function checkNotification(rules: NotificationRules, settings: readonly string[] = []): Mistake[] {
  const { signature, furtherSignatures, values, challenge, headerPrefix, secretHeaders, channel, answer } = rules;
  const context = { headerPrefix, secretHeaders, channel, settings };
  return [
    ...(signature === undefined ? [] : checkSignature(signature, "notification.signature", context)),
    ...furtherSignatures.flatMap((one, i) => checkSignature(one, `notification.further_signatures.${i}`, context)),
    // A way without a proof would be the one that forgers take.
    ...(furtherSignatures.some(({ scheme }) => scheme === "") || (furtherSignatures.length > 0 && !signature?.scheme)
      ? [mistake("notification.further_signatures", "and signature must each have a scheme")]
      : []),
    ...Object.entries(values).flatMap(([name, rule]) => checkValueRule(rule, `notification.values.${name}`)),
    ...namesIn(rules).flatMap(([path, name]) =>
      Object.hasOwn(values, name)
        ? []
        : [mistake(`notification.${path}`, `must name a declared value; there is no "${name}"`)],
    ),
    ...(challenge === undefined ? [] : checkChallenge(challenge, rules, settings)),
    ...(answer === undefined ? [] : checkAnswer(answer)),
    ...(headerPrefix === "" ? [] : checkHeaderName(headerPrefix, "notification.header_prefix")),
    ...secretHeaders.flatMap((name, i) => checkHeaderName(name, `notification.secret_headers.${i}`)),
    ...(rules.number !== "" && rules.channel === ""
      ? [mistake("notification.channel", "must name the value that holds the channel of numbered messages")]
      : []),
  ];
}

/** Returns all places that name a value. */
const namesIn = ({
  lookups,
  messageId,
  channel,
  number,
  state,
  resourceId,
  kind,
}: NotificationRules): [string, string][] => [
  ...lookups.map(({ value }, i): [string, string] => [`lookups.${i}.value`, value]),
  ...messageId.map((name, i): [string, string] => [`message_id.${i}`, name]),
  ...Object.entries({ channel, number, state, resource_id: resourceId, kind }).filter(([, name]) => name !== ""),
];

const answerTypes = ["", "text/plain", "application/json"];

function checkAnswer({ contentType }: NotificationAnswer): Mistake[] {
  return answerTypes.includes(contentType)
    ? []
    : [mistake("notification.answer.content_type", "must be text/plain or application/json")];
}
