import { createHmac, sign } from "node:crypto";
import { isForm } from "../form.ts";
import { readPrivateKey } from "../jwt/private-key.ts";
import { joinSorted, percentEncode, recodeParameters } from "../percent.ts";
import { CannotAttach, type Client, type NameValue, type RequestDraft } from "../scheme.ts";

export type SignatureMethod = "HMAC-SHA1" | "HMAC-SHA256" | "RSA-SHA1" | "PLAINTEXT";

interface SignerOptions {
  readonly method: SignatureMethod;
  readonly client: Client;
  /** Empty before a token exists (RFC 5849, section 2.1). */
  readonly tokenSecret: string;
}

/** Signs a request with its OAuth parameters, except `realm` (RFC 5849, section 3.4). */
export type Signer = (draft: RequestDraft, parameters: readonly NameValue[]) => string;

export function createSigner({ method, client, tokenSecret }: SignerOptions): Signer {
  // Section 3.4.3.
  if (method === "RSA-SHA1") {
    const key = readPrivateKey(client.privateKey ?? "", "the integration's private key");
    if (key.asymmetricKeyType !== "rsa") throw new CannotAttach("the integration's private key must be an RSA key");
    return (draft, parameters) => sign("sha1", Buffer.from(baseString(draft, parameters)), key).toString("base64");
  }
  if (client.secret === "") throw new CannotAttach("the integration has no consumer secret");
  const key = `${percentEncode(client.secret)}&${percentEncode(tokenSecret)}`;
  // Section 3.4.4.
  if (method === "PLAINTEXT") return () => key;
  // Section 3.4.2. The RFC defines only SHA-1; with SHA-256 everything else is the same.
  const hash = method === "HMAC-SHA256" ? "sha256" : "sha1";
  return (draft, parameters) => createHmac(hash, key).update(baseString(draft, parameters)).digest("base64");
}

/** Section 3.4.1: uses the URL exactly as sent. */
function baseString(draft: RequestDraft, parameters: readonly NameValue[]): string {
  const own = parameters.map(([name, value]): NameValue => [percentEncode(name), percentEncode(value)]);
  const callers = [...recodeParameters(draft.query), ...formOf(draft)].filter(([name]) => name !== "oauth_signature");
  const parts = [draft.method.toUpperCase(), baseUri(draft), joinSorted([...own, ...callers])];
  return parts.map(percentEncode).join("&");
}

/** Section 3.4.1.2: omits the scheme's default port. */
function baseUri({ scheme, host, path }: RequestDraft): string {
  const authority = host.toLowerCase().replace(scheme === "https" ? /:443$/ : /:80$/, "");
  return `${scheme}://${authority}${path === "" ? "/" : path}`;
}

function formOf({ headers, body }: RequestDraft): NameValue[] {
  if (body === undefined || !isForm(headers)) return [];
  return recodeParameters(Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8"));
}
