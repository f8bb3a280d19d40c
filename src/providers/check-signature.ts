import { publicKeyAlgorithmOf, publicKeyAlgorithms, readPublicKey } from "../base/crypto/public-keys.ts";
import type { Mistake } from "../base/fault.ts";
import type { SignatureRules } from "../gen/latchkey/v1/provider_pb.ts";
import { checkSenderKey } from "./check-sender-key.ts";
import { checkUrl } from "./check-url.ts";
import { checkHeaderName, checkValueRule, isOneSet } from "./check-value-rule.ts";
import { mistake } from "./mistake.ts";
import { plainPlaceholders, type SignatureScheme, schemeOf, signatureSchemes } from "./signature-scheme.ts";

/** What a signature's rules may refer to. */
export interface SignatureContext {
  readonly headerPrefix: string;
  readonly secretHeaders: readonly string[];
  /** Name of the value with the channel; empty: none. */
  readonly channel: string;
  /** Names of the integration's values. */
  readonly settings: readonly string[];
}

/** Checks that the proof of a sender is sound. `path` is that of the rules. */
export function checkSignature(signature: SignatureRules, path: string, context: SignatureContext): Mistake[] {
  const { header, timestampHeader, idHeader, jwksUrl, furtherHeaders, signatureValue, keyRequest } = signature;
  const at = (name: string) => `${path}.${name}`;
  const names = { header, timestamp_header: timestampHeader, id_header: idHeader };
  return [
    ...Object.entries(names).flatMap(([name, value]) => (value === "" ? [] : checkHeaderName(value, at(name)))),
    ...furtherHeaders.flatMap((name, i) => checkHeaderName(name, at(`further_headers.${i}`))),
    ...(signatureValue === undefined ? [] : checkValueRule(signatureValue, at("signature_value"))),
    ...(keyRequest === undefined ? [] : checkSenderKey(keyRequest, at("key_request"), context.settings)),
    ...checkUrl({ url: jwksUrl, path: at("jwks_url"), fields: [] }),
    ...[...checkScheme(signature, context), ...checkKeyOwner(signature, context)].map((one) =>
      mistake(at(one.path.join(".")), one.message),
    ),
    ...checkSecretHeaders(signature, context),
  ];
}

/** A token passed on to the application would soon appear in the application's logs. */
function checkSecretHeaders(signature: SignatureRules, { headerPrefix, secretHeaders }: SignatureContext): Mistake[] {
  const scheme = schemeOf(signature);
  const sendsSecret = scheme !== undefined && scheme !== "none" && schemes[scheme].sendsSecret;
  const secret = [...(sendsSecret ? [signature.header] : []), signature.handshakeHeader];
  return secret
    .filter((name) => name !== "" && headerPrefix !== "" && name.startsWith(headerPrefix))
    .filter((name) => !secretHeaders.includes(name))
    .map((name) => mistake("notification.secret_headers", `must contain ${name}, which is a secret`));
}

interface SchemeRules {
  /** The header holds a secret itself, not a signature made with one. */
  readonly sendsSecret: boolean;
  readonly check: (signature: SignatureRules, context: SignatureContext) => Mistake[];
}

const required = ({ scheme }: SignatureRules, name: string, value: string): Mistake[] =>
  value === "" ? [mistake(name, `is required for ${scheme}`)] : [];

const schemes: { readonly [S in SignatureScheme]: SchemeRules } = {
  hmac: {
    sendsSecret: false,
    check: (signature, context) => [
      ...(["sha256", "sha1", "sha512"].includes(signature.hash)
        ? []
        : [mistake("hash", "must be sha256, sha1 or sha512")]),
      ...checkSigned(signature, context),
    ],
  },
  standard_webhooks: { sendsSecret: false, check: () => [] },
  channel_token: { sendsSecret: true, check: (signature) => required(signature, "header", signature.header) },
  shared_token: {
    sendsSecret: true,
    check: ({ header, query, body }) =>
      isOneSet([header, query, body]) ? [] : [mistake("header", "or query or body must name the place of the token")],
  },
  basic: { sendsSecret: true, check: () => [] },
  jwt: {
    sendsSecret: false,
    check: (signature) => [
      ...checkTokenPlace(signature),
      ...((signature.jwksUrl === "") === (signature.keyRequest === undefined)
        ? [mistake("jwks_url", "or key_request is required for jwt, and not both")]
        : []),
      ...(signature.bodyHashClaim === "" ? required(signature, "issuer", signature.issuer) : []),
      // Without any of these, a token that the signer issued for another audience would be accepted.
      ...(signature.audience === "" && signature.identityClaim === "" && signature.bodyHashClaim === ""
        ? [mistake("audience", "or identity_claim is required, because these keys sign for other audiences too")]
        : []),
    ],
  },
  jwt_secret: { sendsSecret: false, check: checkTokenPlace },
  public_key: {
    sendsSecret: false,
    check: (signature, context) => [...checkPublicKey(signature), ...checkSigned(signature, context)],
  },
};

function checkScheme(signature: SignatureRules, context: SignatureContext): Mistake[] {
  const scheme = schemeOf(signature);
  if (scheme === "none") return [];
  if (scheme === undefined) return [mistake("scheme", `must be empty or one of ${signatureSchemes.join(", ")}`)];
  return schemes[scheme].check(signature, context);
}

function checkTokenPlace({ header, body, audience, bodyHashClaim, tolerance }: SignatureRules): Mistake[] {
  return [
    ...(isOneSet([header, body]) ? [] : [mistake("header", "or body must name the place of the token")]),
    // A hash of the body cannot be in the body.
    ...(bodyHashClaim !== "" && header === "" ? [mistake("header", "is required with body_hash_claim")] : []),
    ...([...audience.matchAll(/\$\{([^}]*)\}?/g)].every(([, name = ""]) => /^(?:url|integration\.\w+)$/.test(name))
      ? []
      : [mistake("audience", "may contain only ${url} and ${integration.NAME}")]),
    ...(tolerance !== undefined && tolerance.seconds <= 0n ? [mistake("tolerance", "must be positive")] : []),
  ];
}

function checkPublicKey({ algorithm, publicKey, keyRequest, identityPath }: SignatureRules): Mistake[] {
  const known = publicKeyAlgorithmOf(algorithm);
  if (known === undefined) return [mistake("algorithm", `must be one of ${publicKeyAlgorithms.join(", ")}`)];
  return [
    // The secret would be the key as well.
    ...(identityPath !== "" && publicKey === "" && keyRequest === undefined
      ? [mistake("identity_path", "needs public_key or key_request")]
      : []),
    ...(publicKey !== "" && keyRequest !== undefined
      ? [mistake("public_key", "and key_request must not both be set")]
      : []),
    ...(publicKey === "" || readPublicKey(known, publicKey) !== undefined
      ? []
      : [mistake("public_key", `must be a public key in PEM for ${known}`)]),
  ];
}

/** A channel's own key needs a channel; a handshake needs a key of its own. */
function checkKeyOwner(
  { keyOwner, handshakeHeader, scheme }: SignatureRules,
  { channel }: SignatureContext,
): Mistake[] {
  if (keyOwner !== "channel") {
    return handshakeHeader === "" ? [] : [mistake("key_owner", "must be channel, because a handshake tells its key")];
  }
  return [
    ...(["hmac", "standard_webhooks", "shared_token", "jwt_secret"].includes(scheme)
      ? []
      : [mistake("key_owner", `must be empty for ${scheme || "no scheme"}`)]),
    ...(channel === "" ? [mistake("key_owner", "needs notification.channel, which names the channel")] : []),
    // The sender chooses the value, so the header must not have a meaning for the receiver of the response.
    ...(handshakeHeader === "" || /^x-[a-z0-9-]+$/.test(handshakeHeader)
      ? []
      : [mistake("handshake_header", "must be a header of the provider that begins with x-")]),
  ];
}

/** Checks the rules that `hmac` and `public_key` share: where the signature is, and what it covers. */
function checkSigned(signature: SignatureRules, { settings }: SignatureContext): Mistake[] {
  const { header, furtherHeaders, signaturePath, signatureValue, encoding, content, contentFields } = signature;
  const { part, timestampPart, timestampHeader, timestampPath, tolerance, bodyHashQuery, separator } = signature;
  const used = [...content.matchAll(/\$\{([^}]*)\}/g)].map(([, name = ""]) => name);
  const isKnown = (name: string) =>
    plainPlaceholders.some((known) => known === name) ||
    /^header\.[a-z0-9!#$%&'*+.^_`|~-]+$/.test(name) ||
    (/^body\.[^*]+$/.test(name) && !name.includes("..") && !name.endsWith(".")) ||
    (name.startsWith("integration.") && [...settings, "clientId"].includes(name.slice("integration.".length)));
  const isUnderstood = used.every(isKnown) && content.split("${").length - 1 === used.length;
  const times = [timestampPart, timestampHeader, timestampPath].filter((name) => name !== "");
  const isTimeSigned = used.includes("timestamp") || contentFields.includes(timestampPath);
  const coversBody =
    content === "" ||
    used.some((name) => ["body", "body_crc32", "body_sha256"].includes(name)) ||
    (used.includes("form") && used.some((name) => name.endsWith("url"))) ||
    // Fields in place of the body: a captured signature is of use for a short time only.
    (used.some((name) => name.startsWith("body.")) && used.includes("timestamp") && tolerance !== undefined);
  const places = [header, signaturePath, signatureValue === undefined ? "" : "value"];
  return [
    ...(isOneSet(places)
      ? []
      : [mistake("header", `or signature_path or signature_value is required for ${signature.scheme}`)]),
    ...(furtherHeaders.length > 0 && header === "" ? [mistake("header", "is required with further_headers")] : []),
    ...(["hex", "base64"].includes(encoding) ? [] : [mistake("encoding", "must be hex or base64")]),
    ...(isUnderstood
      ? []
      : [
          mistake(
            "content",
            `may contain only these placeholders: ${plainPlaceholders.join(", ")}, header.NAME, body.PATH, integration.NAME`,
          ),
        ]),
    ...(coversBody ? [] : [mistake("content", "must contain the body, because an unsigned body proves nothing")]),
    ...(bodyHashQuery !== "" && !used.some((name) => name.endsWith("url"))
      ? [mistake("content", "must contain the URL, which holds the hash of the body")]
      : []),
    ...(timestampPart !== "" && part === "" ? [mistake("part", "must name the part that holds the signatures")] : []),
    ...(times.length > 1 ? [mistake("timestamp_header", "or another place of the timestamp must be removed")] : []),
    // An unsigned timestamp proves nothing.
    ...(isTimeSigned === times.length > 0
      ? []
      : [mistake("content", "must contain the timestamp if and only if there is one")]),
    ...(tolerance !== undefined && times.length === 0 ? [mistake("tolerance", "needs a timestamp")] : []),
    ...(/^[^A-Za-z0-9=+/_-]{0,3}$/.test(separator) && (separator === "" || part !== "")
      ? []
      : [mistake("separator", "must be one to three marks between the parts that part names")]),
    ...checkContentFields(signature),
  ];
}

function checkContentFields({
  content,
  contentFields,
  contentFieldFormat,
  signaturePath,
  bodyHashQuery,
}: SignatureRules): Mistake[] {
  const lists = [signaturePath, ...contentFields].map((path) => path.split(/(?<!\\)\./).filter((step) => step === "*"));
  if (contentFields.length === 0) {
    return [
      ...(contentFieldFormat === "" ? [] : [mistake("content_field_format", "needs content_fields")]),
      ...(lists.some((stars) => stars.length > 0)
        ? [mistake("signature_path", "may contain * only with content_fields")]
        : []),
    ];
  }
  return [
    ...(content === "" && bodyHashQuery === "" ? [] : [mistake("content", "must be empty with content_fields")]),
    // A path that stands for another number of elements would pair signatures with fields of others.
    ...(lists.every((stars) => stars.length === lists[0]?.length) && (lists[0]?.length ?? 0) < 2
      ? []
      : [mistake("content_fields", "and signature_path must all contain one *, or none")]),
  ];
}
