import { createHmac } from "node:crypto";
import type { JsonValue } from "@bufbuild/protobuf";
import type { SignatureRules, ValueRule } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { stepsOf, valueAt } from "../../../src/providers/dotted-path.ts";

/** A webhook that a provider signed, and what it takes to prove it. */
export interface WebhookVector {
  readonly method: string;
  /** As registered at the provider, with its query. */
  readonly url: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** The integration's webhook secret; empty if the description itself has the key. */
  readonly secret: string;
  /** The receiver's clock, in milliseconds since 1970. */
  readonly nowMs: number;
}

/** A copy of a webhook that must be refused. */
export interface WebhookMutation extends WebhookVector {
  /** What was changed, for people. */
  readonly mutation: string;
}

type Change = (vector: WebhookVector) => WebhookVector | undefined;

/**
 * Returns copies of a proven webhook that prove nothing: one change each, of what the provider's rules say is proven. A
 * change that the rules cannot notice (the body, under a scheme that compares a token) is not made.
 */
export function webhookMutations(vector: WebhookVector, rules: SignatureRules): readonly WebhookMutation[] {
  const changes: readonly (readonly [string, Change])[] = [
    ...signatureChanges(rules),
    ...bodyChanges(rules),
    ...signedPlaces(rules),
    ...timeChanges(vector, rules),
    ...keyChanges(rules),
  ];
  const before = JSON.stringify(vector);
  return changes.flatMap(([mutation, change]) => {
    const changed = change(vector);
    return changed === undefined || JSON.stringify(changed) === before ? [] : [{ ...changed, mutation }];
  });
}

const isJwt = ({ scheme }: SignatureRules) => scheme === "jwt" || scheme === "jwt_secret";
const isToken = ({ scheme }: SignatureRules) => ["shared_token", "channel_token", "basic"].includes(scheme);

/** Headers that carry a signature or token. */
function carriersOf(rules: SignatureRules): readonly string[] {
  const { scheme, header, furtherHeaders, query, body, signaturePath } = rules;
  if (scheme === "standard_webhooks") return [header || "webhook-signature"];
  if (scheme === "basic") return [header || "authorization"];
  if (rules.signatureValue !== undefined) return furtherHeaders;
  if (header === "" && (query !== "" || body !== "" || signaturePath !== "")) return furtherHeaders;
  return [header, ...furtherHeaders].filter((name) => name !== "");
}

/** Changes each signature of a field by itself, without what is around it; a signature that becomes empty stays. */
function inField(rules: SignatureRules, field: string, change: (signature: string) => string): string {
  const { scheme, part, prefix } = rules;
  if (scheme === "standard_webhooks") {
    return field
      .split(" ")
      .map((one) => `${one.slice(0, one.indexOf(",") + 1)}${change(one.slice(one.indexOf(",") + 1))}`)
      .join(" ");
  }
  const bare = (text: string) => (text.startsWith(prefix) ? prefix + change(text.slice(prefix.length)) : change(text));
  if (part === "") return scheme === "basic" ? `Basic ${change(field.replace(/^Basic /i, ""))}` : bare(field);
  const separator = rules.separator || ",";
  return field
    .split(separator)
    .map((one) => {
      const name = one.slice(0, one.indexOf("="));
      return name.trim() === part ? `${name}=${bare(one.slice(name.length + 1))}` : one;
    })
    .join(separator);
}

const queryOf = ({ query, signatureValue }: SignatureRules): string => query || (signatureValue?.query ?? "");

/** Changes every signature of a webhook, wherever it is. */
const withSignature =
  (rules: SignatureRules, change: (signature: string) => string): Change =>
  (vector) => {
    const headers: Record<string, string> = { ...vector.headers };
    for (const name of carriersOf(rules)) {
      const field = headers[name];
      if (field !== undefined) headers[name] = inField(rules, field, change);
    }
    const { body, signaturePath, signatureValue } = rules;
    const query = queryOf(rules);
    let changed: WebhookVector = { ...vector, headers };
    if (signatureValue !== undefined) changed = withDecodedHeader(changed, signatureValue, change);
    if (query !== "") changed = withQuery(changed, query, change);
    if (body !== "") changed = withFields(changed, body, change);
    return signaturePath === "" ? changed : withFields(changed, signaturePath, change);
  };

const withoutCarrier =
  (rules: SignatureRules): Change =>
  (vector) => {
    const carriers = [...carriersOf(rules), rules.signatureValue?.header ?? ""];
    const headers = Object.fromEntries(Object.entries(vector.headers).filter(([name]) => !carriers.includes(name)));
    const { body, signaturePath } = rules;
    const query = queryOf(rules);
    let changed: WebhookVector = { ...vector, headers };
    if (query !== "") changed = { ...changed, url: changed.url.replace(new RegExp(`([?&])${query}=[^&]*&?`), "$1") };
    for (const path of [body, signaturePath]) if (path !== "") changed = withoutField(changed, path);
    return changed;
  };

function signatureChanges(rules: SignatureRules): readonly (readonly [string, Change])[] {
  const { encoding, prefix, part } = rules;
  const change = (to: (signature: string) => string) => withSignature(rules, to);
  const otherEncoding = (one: string) =>
    encoding === "hex" ? Buffer.from(one, "hex").toString("base64") : Buffer.from(one, "base64").toString("hex");
  const whole =
    (to: (field: string) => string): Change =>
    (vector) => {
      const carriers = carriersOf(rules).filter((name) => vector.headers[name] !== undefined);
      if (carriers.length === 0) return undefined;
      const headers: Record<string, string> = { ...vector.headers };
      for (const name of carriers) headers[name] = to(headers[name] ?? "");
      return { ...vector, headers };
    };
  return [
    ["no signature", withoutCarrier(rules)],
    ["an empty signature", change(() => "")],
    ["the first character changed", change((one) => flipped(one, 0))],
    ["a character in the middle changed", change((one) => flipped(one, Math.floor(one.length / 2)))],
    // The last character before the padding may be one that decodes to the same bytes: this must be refused too.
    ["the last character changed", change((one) => flipped(one, one.replace(/=+$/, "").length - 1))],
    ["a signature cut by one character", change((one) => one.slice(0, -1))],
    ["a signature cut in half", change((one) => one.slice(0, Math.floor(one.length / 2)))],
    ["a signature with more behind it", change((one) => `${one}a0`)],
    ["a signature with more before it", change((one) => `a0${one}`)],
    ["a signature of zeros", change((one) => "0".repeat(one.length))],
    ["text beyond ASCII", change((one) => "é".repeat(one.length))],
    ...(isToken(rules) ? [] : ([["another encoding", change(otherEncoding)]] as const)),
    ...(isToken(rules) ? ([["another case", change(swappedCase)]] as const) : []),
    ...(prefix === "" ? [] : ([["another prefix", whole((field) => field.replaceAll(prefix, "x="))]] as const)),
    ...(part === "" ? [] : ([["another name", whole((field) => field.replaceAll(`${part}=`, `${part}x=`))]] as const)),
    ...(isJwt(rules) ? jwtChanges(change) : []),
  ];
}

function jwtChanges(change: (to: (token: string) => string) => Change): readonly (readonly [string, Change])[] {
  const rewritten = (which: 0 | 1, to: (value: Record<string, unknown>) => unknown, keep = true) =>
    change((token) => {
      const parts = token.split(".");
      const value = JSON.parse(Buffer.from(parts[which] ?? "", "base64url").toString());
      parts[which] = Buffer.from(JSON.stringify(to(value))).toString("base64url");
      return [parts[0], parts[1], keep ? parts[2] : ""].join(".");
    });
  return [
    ["algorithm none", rewritten(0, (head) => ({ ...head, alg: "none" }), false)],
    ["algorithm none, signature kept", rewritten(0, (head) => ({ ...head, alg: "none" }))],
    ["another algorithm", rewritten(0, (head) => ({ ...head, alg: head["alg"] === "HS256" ? "RS256" : "HS256" }))],
    ["a critical extension", rewritten(0, (head) => ({ ...head, crit: ["x"] }))],
    ["another claim", rewritten(1, (claims) => ({ ...claims, more: 1 }))],
    ["another issuer", rewritten(1, (claims) => ({ ...claims, iss: "https://evil.test" }))],
    ["no claims", rewritten(1, () => ({}))],
  ];
}

/** Names of what `content` contains, such as `body` and `header.x-id`. */
const placeholdersOf = ({ content }: SignatureRules): readonly string[] =>
  [...(content || "${body}").matchAll(/\$\{([^}]+)\}/g)].map(([, name = ""]) => name);

/** Reports whether a change of any byte of the body is noticed. */
function coversBody(rules: SignatureRules): boolean {
  if (isJwt(rules)) return rules.bodyHashClaim !== "";
  if (isToken(rules)) return false;
  if (rules.scheme === "standard_webhooks") return true;
  if (rules.contentFields.length > 0) return false;
  return placeholdersOf(rules).some((name) => ["body", "body_crc32", "body_sha256", "form"].includes(name));
}

function bodyChanges(rules: SignatureRules): readonly (readonly [string, Change])[] {
  if (!coversBody(rules)) return [];
  const body = (to: (body: string) => string): Change => {
    return (vector) => ({ ...vector, body: to(vector.body) });
  };
  return [
    ["the first byte of the body changed", body((text) => flipped(text, 0))],
    ["a byte of the body changed", body((text) => flipped(text, Math.floor(text.length / 2)))],
    ["a body with one byte more", body((text) => `${text}x`)],
    ["a body with one byte less", body((text) => text.slice(0, -1))],
    ["no body", body(() => "")],
    ["a body twice", body((text) => (text === "" ? "" : `${text}&${text}1`))],
  ];
}

/** Changes what else is signed: headers, fields of the body, the URL, the method. */
function signedPlaces(rules: SignatureRules): readonly (readonly [string, Change])[] {
  if (isJwt(rules) || isToken(rules)) return [];
  const names = placeholdersOf(rules);
  const idHeader = rules.idHeader || "webhook-id";
  const headers = [
    ...(rules.scheme === "standard_webhooks" ? [idHeader] : []),
    ...names.filter((name) => name.startsWith("header.")).map((name) => name.slice("header.".length)),
  ];
  const paths = [
    ...names.filter((name) => name.startsWith("body.")).map((name) => name.slice("body.".length)),
    ...rules.contentFields,
  ];
  return [
    ...headers.flatMap((name): [string, Change][] => [
      [`another ${name}`, (vector) => withHeader(vector, name, `${vector.headers[name] ?? ""}x`)],
      [`no ${name}`, (vector) => withHeader(vector, name, undefined)],
    ]),
    ...paths.flatMap((path): [string, Change][] => [
      [`another ${path}`, (vector) => withFields(vector, path, (text) => `${text}x`)],
      [`no ${path}`, (vector) => withoutField(vector, path)],
    ]),
    ...(names.some((name) => name.endsWith("url"))
      ? ([["another URL", (vector: WebhookVector) => ({ ...vector, url: `${vector.url}x` })]] as const)
      : []),
    ...(names.includes("method")
      ? ([["another method", (vector: WebhookVector) => ({ ...vector, method: "PUT" })]] as const)
      : []),
  ];
}

function timeChanges(vector: WebhookVector, rules: SignatureRules): readonly (readonly [string, Change])[] {
  const { scheme, timestampHeader, timestampPart, tolerance } = rules;
  const isStandard = scheme === "standard_webhooks";
  const header = timestampHeader || (isStandard ? "webhook-timestamp" : "");
  const separator = rules.separator || ",";
  const part = (to: (time: string) => string): Change => {
    const inOne = (one: string) =>
      one.trim().startsWith(`${timestampPart}=`) ? `${timestampPart}=${to(one.slice(one.indexOf("=") + 1))}` : one;
    return (one) =>
      withHeader(one, rules.header, one.headers[rules.header]?.split(separator).map(inOne).join(separator));
  };
  const at = (nowMs: number): Change => {
    return (one) => ({ ...one, nowMs });
  };
  const limitMs =
    tolerance === undefined ? (isStandard ? 300_000 : undefined) : Number(tolerance.seconds) * 1_000 + 1_000;
  return [
    ...(header === ""
      ? []
      : ([
          ["another time", (one: WebhookVector) => withHeader(one, header, later(one.headers[header] ?? ""))],
          ["no time", (one: WebhookVector) => withHeader(one, header, undefined)],
          ["a time that is none", (one: WebhookVector) => withHeader(one, header, "soon")],
        ] as const)),
    ...(timestampPart === ""
      ? []
      : ([
          ["another time", part(later)],
          ["no time", part(() => "")],
          ["a time that is none", part(() => "soon")],
        ] as const)),
    ...(limitMs === undefined || (header === "" && timestampPart === "")
      ? []
      : ([
          ["long ago", at(vector.nowMs + 2 * limitMs)],
          ["long before", at(vector.nowMs - 2 * limitMs)],
        ] as const)),
    // A token that binds a body by its hash may lack an end.
    ...(isJwt(rules) && (rules.bodyHashClaim === "" || tolerance !== undefined)
      ? ([["ten years ago", at(vector.nowMs + 10 * 365 * 86_400_000)]] as const)
      : []),
  ];
}

/** Changes the key. A key that the description itself has, or fetches, cannot be changed here. */
function keyChanges(rules: SignatureRules): readonly (readonly [string, Change])[] {
  const isShared = ["hmac", "standard_webhooks", "jwt_secret"].includes(rules.scheme) || isToken(rules);
  if (!isShared) return [];
  const other = Buffer.from("another-key-of-24-bytes!").toString("base64");
  const asBare: Change = (vector) => {
    if (rules.scheme !== "hmac" || rules.keyEncoding !== "" || vector.secret === "") return undefined;
    if (rules.contentFields.length === 0 && placeholdersOf(rules).join() === "body" && rules.content.length <= 7) {
      return undefined;
    }
    const made = createHmac(rules.hash || "sha256", vector.secret.split("\n")[0] ?? "").update(vector.body);
    const text = made.digest(rules.encoding === "base64" ? "base64" : "hex");
    return withSignature(rules, () => text)(vector);
  };
  const withoutKey: Change = (vector) => {
    if (rules.scheme !== "hmac") return undefined;
    const text = createHmac(rules.hash || "sha256", "").update(vector.body);
    return withSignature(rules, () => text.digest(rules.encoding === "base64" ? "base64" : "hex"))(vector);
  };
  return [
    ["another secret", (vector) => (vector.secret === "" ? undefined : { ...vector, secret: other })],
    ["a signature of the body alone", asBare],
    ["a signature with an empty key", withoutKey],
  ];
}

const flipped = (text: string, at: number): string => {
  if (at < 0 || at >= text.length) return text;
  const was = text[at] ?? "";
  // A digit or letter of every encoding, other than by its case.
  return (
    text.slice(0, at) +
    (/[0-9]/.test(was) ? String((Number(was) + 1) % 10) : /[bB]/.test(was) ? "c" : "b") +
    text.slice(at + 1)
  );
};

const swappedCase = (text: string): string =>
  [...text].map((one) => (one === one.toLowerCase() ? one.toUpperCase() : one.toLowerCase())).join("");

/** A second later, whatever the format. */
const later = (time: string): string =>
  /^\d+$/.test(time)
    ? String(BigInt(time) + 1n)
    : time.replace(/\d(?=\D*$)/, (digit) => String((Number(digit) + 1) % 10));

function withHeader(vector: WebhookVector, name: string, value: string | undefined): WebhookVector {
  const { [name]: _, ...rest } = vector.headers;
  return { ...vector, headers: value === undefined ? rest : { ...rest, [name]: value } };
}

/** Changes a signature within base64 JSON in a header. */
function withDecodedHeader(vector: WebhookVector, { header, json }: ValueRule, change: (value: string) => string) {
  const field = vector.headers[header];
  if (field === undefined || json === "") return vector;
  const inner = { ...vector, body: Buffer.from(field, "base64").toString() };
  return withHeader(vector, header, Buffer.from(withFields(inner, json, change).body).toString("base64"));
}

function withQuery(vector: WebhookVector, name: string, change: (value: string) => string): WebhookVector {
  const url = new URL(vector.url);
  const value = url.searchParams.get(name);
  if (value !== null) url.searchParams.set(name, change(value));
  return { ...vector, url: url.toString() };
}

/** Changes the texts at a path of the JSON body. The body is written anew, so only for rules that sign fields of it. */
function withFields(vector: WebhookVector, path: string, change: (value: string) => string): WebhookVector {
  return rewrittenBody(vector, path, (holder, name) => {
    holder[name] = change(String(holder[name]));
  });
}

const withoutField = (vector: WebhookVector, path: string): WebhookVector =>
  rewrittenBody(vector, path, (holder, name) => {
    delete holder[name];
  });

type JsonHolder = Record<string, JsonValue>;

function rewrittenBody(vector: WebhookVector, path: string, act: (holder: JsonHolder, name: string) => void) {
  const body = JSON.parse(vector.body) as JsonValue;
  const steps = stepsOf(path) ?? [];
  const name = steps.at(-1) ?? "";
  let holders: (JsonValue | undefined)[] = [body];
  for (const step of steps.slice(0, -1)) {
    const escaped = step.replaceAll(".", "\\.");
    holders = holders.flatMap((one) =>
      one === undefined ? [] : step === "*" && Array.isArray(one) ? one : [valueAt(escaped, one)],
    );
  }
  for (const holder of holders) {
    if (typeof holder === "object" && holder !== null && Object.hasOwn(holder, name)) act(holder as JsonHolder, name);
  }
  return { ...vector, body: JSON.stringify(body) };
}
