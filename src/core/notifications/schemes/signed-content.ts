import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import type { SignatureRules } from "../../../gen/latchkey/v1/provider_pb.ts";
import { type PlainPlaceholder, plainPlaceholders } from "../../../providers/signature-scheme.ts";
import type { NotificationReading } from "../reading.ts";
import { isSame } from "./constant-time.ts";
import type { ProofRequest } from "./scheme.ts";

/** A request, and the timestamp that it names; empty if the rules name no place for one. */
export interface TimestampedRequest extends ProofRequest {
  readonly timestamp: string;
}

type ContentPiece = (request: TimestampedRequest) => Uint8Array | undefined;

interface ContentTemplate {
  readonly pieces: readonly ContentPiece[];
  /** The pieces contain the body or a hash of it, or fields in its place. Otherwise the URL must cover the body. */
  readonly hasBody: boolean;
}

/**
 * Returns the signed content, piece by piece; undefined if a value is missing, or if the signature does not cover the
 * body, so that the body could be forged.
 */
export function contentOf(rules: SignatureRules, request: TimestampedRequest): readonly Uint8Array[] | undefined {
  const { pieces, hasBody } = templateOf(rules);
  if (!hasBody && !isCovered(rules.bodyHashQuery, request.reading)) return undefined;
  const content: Uint8Array[] = [];
  for (const piece of pieces) {
    const bytes = piece(request);
    if (bytes === undefined) return undefined;
    content.push(bytes);
  }
  return content;
}

const templates = new WeakMap<SignatureRules, ContentTemplate>();

function templateOf(rules: SignatureRules): ContentTemplate {
  const known = templates.get(rules);
  if (known !== undefined) return known;
  const texts = (rules.content || "${body}").split(/(\$\{[^}]+\})/).filter((text) => text !== "");
  const made: ContentTemplate = {
    pieces: texts.map(pieceOf),
    hasBody: texts.some((text) => /^\$\{body(?:_crc32|_sha256|\..*)?\}$/.test(text)),
  };
  templates.set(rules, made);
  return made;
}

const plainPieces: { readonly [P in PlainPlaceholder]: ContentPiece } = {
  timestamp: ({ timestamp }) => Buffer.from(timestamp),
  body: ({ reading }) => reading.received.body,
  body_crc32: ({ reading }) => Buffer.from(String(crc32(reading.received.body))),
  body_sha256: ({ reading }) => Buffer.from(createHash("sha256").update(reading.received.body).digest("hex")),
  method: ({ method }) => Buffer.from(method),
  url: ({ url }) => Buffer.from(url),
  plain_url: ({ url }) => Buffer.from(plainUrl(url)),
  form: ({ reading }) => Buffer.from(sortedForm(reading)),
};

function pieceOf(text: string): ContentPiece {
  const [, name] = /^\$\{([^}]+)\}$/.exec(text) ?? [];
  const literal = Buffer.from(text);
  if (name === undefined) return () => literal;
  const plain = plainPlaceholders.find((known) => known === name);
  if (plain !== undefined) return plainPieces[plain];
  const at = name.indexOf(".");
  const [kind, named] = [name.slice(0, at), name.slice(at + 1)];
  return (request) => {
    const value = namedValue(kind, named, request);
    return value === undefined ? undefined : Buffer.from(value);
  };
}

function namedValue(kind: string, name: string, { reading, settings }: ProofRequest): string | undefined {
  switch (kind) {
    case "header":
      return reading.header(name);
    case "body":
      return reading.textsAt(name)[0];
    case "integration":
      return settings?.(name);
    default:
      // Written by a later version: a content that cannot be built proves nothing.
      return undefined;
  }
}

/** Reports whether the URL, or `${form}`, covers the whole body. */
function isCovered(bodyHashQuery: string, reading: NotificationReading): boolean {
  const { body } = reading.received;
  const bodyHash = bodyHashQuery === "" ? undefined : reading.query(bodyHashQuery);
  if (bodyHash !== undefined) return isSame(createHash("sha256").update(body).digest("hex"), bodyHash.toLowerCase());
  return body.length === 0 || reading.form() !== undefined;
}

/**
 * Sorted by the code units of the names, as JavaScript sorts; if a name has several values, each value is used once.
 */
function sortedForm(reading: NotificationReading): string {
  const fields = (reading.form() ?? []).map(([name, value]) => `${name}\0${value}`);
  return [...new Set(fields)]
    .sort()
    .map((field) => field.replace("\0", ""))
    .join("");
}

const plainUrl = (url: string): string =>
  url.replaceAll(/%(?:3A|2F|3F|40|21|24|27|28|29|2A|2C|3B)/gi, (escaped) => decodeURIComponent(escaped));
