import { createHash, createHmac } from "node:crypto";
import { requireHeaderValue } from "./header-value.ts";
import { neverExpires, notRefreshed, sentWhole, shownWhole } from "./kind-traits.ts";
import { compare, joinSorted, percentEncode, recodeForm, recodeParameters } from "./percent.ts";
import { type AttachRequest, type AuthScheme, CannotAttach, type NameValue, type RequestDraft } from "./scheme.ts";

/** Headers that Latchkey sets or omits: a caller's own would be taken as part of the signature. */
const headerNames = ["authorization", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"];

/**
 * Headers that are not signed: hop-by-hop ones, and those that intermediaries may change or add to. AWS requires only
 * the host and `x-amz-*`; every other signed header is protected against changes as well. AWS's own SDKs do the same.
 */
const unsigned = new Set([
  ...["connection", "expect", "keep-alive", "proxy-authorization", "te", "trailer", "transfer-encoding", "upgrade"],
  ...["accept-encoding", "cache-control", "content-length", "forwarded", "from", "host", "max-forwards", "pragma"],
  ...["referer", "user-agent", "via", "x-amzn-trace-id"],
  ...headerNames,
]);

/**
 * All variants of S3 differ from other services: they encode the path once and do not normalize it, require the payload
 * hash in a header, and accept an unhashed payload.
 */
const likeS3 = new Set(["s3", "s3-object-lambda", "s3-outposts", "s3express"]);

/** AWS Signature Version 4 in the `authorization` header ("Create a signed AWS API request", AWS IAM User Guide). */
export const awsSigv4: AuthScheme<"awsSigv4"> = {
  ...{ ...neverExpires, ...notRefreshed, ...shownWhole, ...sentWhole },
  // Temporary keys expire.
  expiresAt: ({ expiresAt }) => expiresAt,
  attach(request) {
    const { accessKeyId, sessionToken } = request.credentials;
    const { region, service } = scopeOf(request);
    const keyOf = createDayKey({ secret: secretOf(request), region, service });
    const isS3 = likeS3.has(service);

    function sign(draft: RequestDraft) {
      const moment = new Date(draft.nowMs).toISOString().replace(/[-:]|\.\d{3}/g, "");
      const day = moment.slice(0, 8);
      const scope = `${day}/${region}/${service}/aws4_request`;
      const payload = isS3 ? payloadForS3(draft) : sha256(draft.body ?? "");
      const own: NameValue[] = [
        ["x-amz-date", moment],
        ...(isS3 ? [["x-amz-content-sha256", payload] as const] : []),
        ...(sessionToken === "" ? [] : [["x-amz-security-token", sessionToken] as const]),
      ];
      const headers = headersOf(draft, own);
      const names = headers.map(([name]) => name).join(";");
      const canonical = [
        draft.method.toUpperCase(),
        isS3 ? pathForS3(draft.path) : normalPath(draft.path),
        joinSorted(recodeParameters(draft.query)),
        ...headers.map(([name, value]) => `${name}:${value}`),
        "",
        names,
        payload,
      ].join("\n");
      const toSign = ["AWS4-HMAC-SHA256", moment, scope, sha256(canonical)].join("\n");
      const signature = hmac(keyOf(day), toSign).toString("hex");
      const credential = `Credential=${accessKeyId}/${scope}`;
      const authorization = `AWS4-HMAC-SHA256 ${credential}, SignedHeaders=${names}, Signature=${signature}`;
      return { headers: [["authorization", authorization] as const, ...own] };
    }

    // An upload to S3 may be larger than memory, and TLS protects its integrity. Other services require the hash of the
    // body, so the whole body must be read before the first byte is sent.
    return { kind: "signing", needs: isS3 ? "nothing" : "body", headerNames, sign };
  },
  names: () => ({ headers: headerNames, query: [] }),
};

function secretOf({ credentials }: AttachRequest<"awsSigv4">): string {
  const { accessKeyId, secretAccessKey, sessionToken, roleArn } = credentials;
  if (accessKeyId === "") throw new CannotAttach("the access key ID is missing");
  if (secretAccessKey === "") throw new CannotAttach("the secret access key is missing");
  // Without the session token, requests would be sent as the identity that may assume the role, with its unintended
  // rights.
  if (roleArn !== "" && sessionToken === "")
    throw new CannotAttach("the session token of the role to assume is missing");
  requireHeaderValue(accessKeyId, "the access key ID");
  requireHeaderValue(sessionToken, "the session token");
  return secretAccessKey;
}

interface Scope {
  readonly region: string;
  readonly service: string;
}

function scopeOf({ credentials, rules }: AttachRequest<"awsSigv4">): Scope {
  const scope = { region: credentials.region, service: rules.service || credentials.service };
  // Each is a path segment of the credential scope.
  if (!/^[A-Za-z0-9-]+$/.test(scope.region)) throw new CannotAttach("the AWS region is missing or malformed");
  if (!/^[A-Za-z0-9._-]+$/.test(scope.service)) throw new CannotAttach("the AWS service is missing or malformed");
  return scope;
}

/** The signing key is the same for a whole day. */
function createDayKey({ secret, region, service }: Scope & { readonly secret: string }): (day: string) => Buffer {
  let held: { readonly day: string; readonly key: Buffer } | undefined;
  return (day) => {
    if (held?.day !== day) {
      const key = [day, region, service, "aws4_request"].reduce(hmac, Buffer.from(`AWS4${secret}`, "utf8"));
      held = { day, key };
    }
    return held.key;
  };
}

/** Returns the signed headers by name; repeated ones joined in order, with insignificant blanks removed. */
function headersOf({ host, headers }: RequestDraft, own: readonly NameValue[]): NameValue[] {
  const signed: NameValue[] = [["host", host], ...headers.filter(([name]) => !unsigned.has(name)), ...own];
  const together = Map.groupBy(signed, ([name]) => name);
  return [...together]
    .map(
      ([name, pairs]): NameValue => [
        name,
        pairs.map(([, value]) => value.replace(/^[ \t]+|[ \t]+$/g, "").replace(/ +/g, " ")).join(","),
      ],
    )
    .sort(([a], [b]) => compare(a, b));
}

/** Encodes the object's name as S3 decodes it: a plus in a path is a blank, and an encoded slash is a slash. */
const pathForS3 = (path: string) => recodeForm(path === "" ? "/" : path).replaceAll("%2F", "/");

/**
 * Normalizes by RFC 3986, section 5.2.4, without empty segments; then encodes the path again, on top of its encoding as
 * sent.
 */
function normalPath(path: string): string {
  const kept: string[] = [];
  for (const segment of path.split("/")) {
    if (segment === "..") kept.pop();
    else if (segment !== "" && segment !== ".") kept.push(percentEncode(segment));
  }
  return `/${kept.join("/")}${kept.length > 0 && path.endsWith("/") ? "/" : ""}`;
}

/** Some buckets require a hash, so requests that cannot have a body send the hash of an empty one. */
function payloadForS3({ method, headers, body }: RequestDraft): string {
  const announced = headers.some(
    ([name, value]) => name === "transfer-encoding" || (name === "content-length" && value !== "0"),
  );
  const isEmpty = body === undefined && !announced && ["GET", "HEAD", "DELETE"].includes(method.toUpperCase());
  return body === undefined && !isEmpty ? "UNSIGNED-PAYLOAD" : sha256(body ?? "");
}

function sha256(content: string | Uint8Array): string {
  const hash = createHash("sha256");
  // Only header values can contain non-ASCII characters, and those are bytes, one per character.
  return (typeof content === "string" ? hash.update(content, "latin1") : hash.update(content)).digest("hex");
}
const hmac = (key: Buffer, content: string) => createHmac("sha256", key).update(content).digest();
