import type { Mistake } from "../base/fault.ts";
import type { ChallengeRules, NotificationRules, SignatureRules, ValueRule } from "../gen/latchkey/v1/provider_pb.ts";
import { checkUrl } from "./check-url.ts";
import { mistake } from "./mistake.ts";
import { type SignatureScheme, schemeOf, signatureSchemes } from "./signature-scheme.ts";

/** Checks what the schema cannot express: that names refer to values, and that the proof is sound. */
export function checkNotification(rules: NotificationRules): Mistake[] {
  const { signature, values, challenge, headerPrefix, secretHeaders } = rules;
  return [
    ...(signature === undefined ? [] : checkSignature(signature, rules)),
    ...Object.entries(values).flatMap(([name, rule]) => checkValue(rule, `notification.values.${name}`)),
    ...namesIn(rules).flatMap(([path, name]) =>
      Object.hasOwn(values, name)
        ? []
        : [mistake(`notification.${path}`, `must name a declared value; there is no "${name}"`)],
    ),
    ...(challenge === undefined ? [] : checkChallenge(challenge)),
    ...(headerPrefix === "" ? [] : checkName(headerPrefix, "notification.header_prefix")),
    ...secretHeaders.flatMap((name, i) => checkName(name, `notification.secret_headers.${i}`)),
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

/** Checks a header name, which is kept in lower case. */
const checkName = (name: string, path: string): Mistake[] =>
  /^[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name) ? [] : [mistake(path, "must be a header name in lower case")];

const only = (places: readonly string[]): boolean => places.filter((place) => place !== "").length === 1;

function checkValue({ header, body, query, form }: ValueRule, path: string): Mistake[] {
  return [
    ...(only([header, body, query, form])
      ? []
      : [mistake(path, "must name exactly one of header, body, query and form")]),
    ...(header === "" ? [] : checkName(header, `${path}.header`)),
  ];
}

function checkSignature(signature: SignatureRules, rules: NotificationRules): Mistake[] {
  const { header, timestampHeader, idHeader, jwksUrl } = signature;
  const scheme = schemeOf(signature);
  const at = (name: string) => `notification.signature.${name}`;
  const names = { header, timestamp_header: timestampHeader, id_header: idHeader };
  return [
    ...Object.entries(names).flatMap(([name, value]) => (value === "" ? [] : checkName(value, at(name)))),
    ...checkUrl({ url: jwksUrl, path: at("jwks_url"), fields: [] }),
    ...checkScheme(signature).map(({ path, message }) => mistake(at(path.join(".")), message)),
    // A token passed on to the application would soon appear in the application's logs.
    ...(scheme !== undefined &&
    scheme !== "none" &&
    schemes[scheme].sendsSecret &&
    rules.headerPrefix !== "" &&
    header.startsWith(rules.headerPrefix) &&
    !rules.secretHeaders.includes(header)
      ? [mistake("notification.secret_headers", `must contain ${header}, which is a secret`)]
      : []),
  ];
}

interface SchemeRules {
  /** The header holds a secret itself, not a signature made with one. */
  readonly sendsSecret: boolean;
  readonly check: (signature: SignatureRules) => Mistake[];
}

const required = ({ scheme }: SignatureRules, name: string, value: string): Mistake[] =>
  value === "" ? [mistake(name, `is required for ${scheme}`)] : [];

const schemes: { readonly [S in SignatureScheme]: SchemeRules } = {
  hmac: {
    sendsSecret: false,
    check: (signature) => [...required(signature, "header", signature.header), ...checkHmac(signature)],
  },
  standard_webhooks: { sendsSecret: false, check: () => [] },
  channel_token: { sendsSecret: true, check: (signature) => required(signature, "header", signature.header) },
  shared_token: {
    sendsSecret: true,
    check: ({ header, query, body }) =>
      only([header, query, body]) ? [] : [mistake("header", "or query or body must name the place of the token")],
  },
  jwt: {
    sendsSecret: false,
    check: (signature) => [
      ...required(signature, "header", signature.header),
      ...required(signature, "jwks_url", signature.jwksUrl),
      ...required(signature, "issuer", signature.issuer),
      // Without either, a token that the signer issued for another audience would be accepted.
      ...(signature.audience === "" && signature.identityClaim === ""
        ? [mistake("audience", "or identity_claim is required, because these keys sign for other audiences too")]
        : []),
    ],
  },
};

function checkScheme(signature: SignatureRules): Mistake[] {
  const scheme = schemeOf(signature);
  if (scheme === "none") return [];
  if (scheme === undefined) return [mistake("scheme", `must be empty or one of ${signatureSchemes.join(", ")}`)];
  return schemes[scheme].check(signature);
}

const placeholders = ["timestamp", "body", "method", "url", "plain_url", "form"];

function checkHmac(signature: SignatureRules): Mistake[] {
  const { hash, encoding, content, part, timestampPart, timestampHeader, tolerance, bodyHashQuery } = signature;
  const used = [...content.matchAll(/\$\{(\w+)\}/g)].map(([, name = ""]) => name);
  const isUnderstood =
    used.every((name) => placeholders.includes(name)) && content.split("${").length - 1 === used.length;
  const hasTime = timestampPart !== "" || timestampHeader !== "";
  const coversBody =
    content === "" || used.includes("body") || (used.includes("form") && used.some((name) => name.endsWith("url")));
  return [
    ...(["sha256", "sha1", "sha512"].includes(hash) ? [] : [mistake("hash", "must be sha256, sha1 or sha512")]),
    ...(["hex", "base64"].includes(encoding) ? [] : [mistake("encoding", "must be hex or base64")]),
    ...(isUnderstood ? [] : [mistake("content", `may contain only these placeholders: ${placeholders.join(", ")}`)]),
    ...(coversBody ? [] : [mistake("content", "must contain the body, because an unsigned body proves nothing")]),
    ...(bodyHashQuery !== "" && !used.some((name) => name.endsWith("url"))
      ? [mistake("content", "must contain the URL, which holds the hash of the body")]
      : []),
    ...(timestampPart !== "" && part === "" ? [mistake("part", "must name the part that holds the signatures")] : []),
    // An unsigned timestamp proves nothing.
    ...(used.includes("timestamp") === hasTime
      ? []
      : [mistake("content", "must contain the timestamp if and only if there is one")]),
    ...(tolerance !== undefined && !hasTime ? [mistake("tolerance", "needs a timestamp")] : []),
  ];
}

function checkChallenge({ query, body, header, contentType, when, is }: ChallengeRules): Mistake[] {
  const at = (name: string) => `notification.challenge.${name}`;
  return [
    ...(only([query, body, header]) ? [] : [mistake(at("query"), "or body or header must name the value to echo")]),
    ...(header === "" ? [] : checkName(header, at("header"))),
    ...(["", "text/plain", "application/json"].includes(contentType)
      ? []
      : [mistake(at("content_type"), "must be text/plain or application/json")]),
    ...((when === "") === (is === "") ? [] : [mistake(at("when"), "and is must be set together")]),
    // Strangers choose the value, so the header must not have a meaning for the receiver of the response.
    ...(header === "" || header.startsWith("x-")
      ? []
      : [mistake(at("header"), "must be a header of the provider that begins with x-")]),
  ];
}
