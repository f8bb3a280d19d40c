import { createHmac } from "node:crypto";
import { type Call, mediaType, SandboxRefusal } from "../call.ts";
import { isSame } from "./clients.ts";

/** A signed request of RFC 5849: its protocol parameters, and the check of its signature. */
export interface SignedRequest {
  /** `oauth_consumer_key` and the others, decoded. */
  readonly parameters: ReadonlyMap<string, string>;
  isSignedWith(secrets: { readonly consumerSecret: string; readonly tokenSecret: string }): boolean;
}

type Parameter = readonly [name: string, value: string];

/** Reads the header, the form and the query (RFC 5849, section 3.5). Repeated protocol parameters are refused. */
export function readSignedRequest(call: Call): SignedRequest {
  const [path = "", query = ""] = splitTarget(call.target);
  const fromHeader = headerPairs(call.headers.authorization ?? "");
  const isForm = mediaType(call) === "application/x-www-form-urlencoded";
  const pairs = [...fromHeader, ...formPairs(query), ...(isForm ? formPairs(call.body.toString("latin1")) : [])];
  const parameters = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (!name.startsWith("oauth_")) continue;
    if (parameters.has(name)) throw problem(400, "parameter_rejected", `${name} must not be repeated`);
    parameters.set(name, value);
  }
  const method = parameters.get("oauth_signature_method") ?? "";
  const signature = parameters.get("oauth_signature") ?? "";

  return {
    parameters,
    isSignedWith({ consumerSecret, tokenSecret }) {
      const key = `${encode(consumerSecret)}&${encode(tokenSecret)}`;
      if (method === "PLAINTEXT") return isSame(signature, key);
      const algorithm = { "HMAC-SHA1": "sha1", "HMAC-SHA256": "sha256" }[method];
      if (algorithm === undefined) throw problem(400, "signature_method_rejected", `${method} is not supported`);
      const normalized = pairs
        .filter(([name]) => name !== "oauth_signature")
        .map(([name, value]): Parameter => [encode(name), encode(value)])
        .sort(([a, x], [b, y]) => compare(a, b) || compare(x, y))
        .map(([name, value]) => `${name}=${value}`)
        .join("&");
      // The client may have signed `https` if a proxy in front of the sandbox ends TLS.
      return ["http", "https"].some((scheme) => {
        const uri = `${scheme}://${hostFor(scheme, call.headers.host ?? "")}${path}`;
        const base = [call.method, encode(uri), encode(normalized)].join("&");
        return isSame(signature, createHmac(algorithm, key).update(base).digest("base64"));
      });
    },
  };
}

const splitTarget = (target: string): [string, string] => {
  const at = target.indexOf("?");
  return at === -1 ? [target, ""] : [target.slice(0, at), target.slice(at + 1)];
};

/** Section 3.4.1.2: in lower case, without the default port. */
function hostFor(scheme: string, host: string): string {
  return host.toLowerCase().replace(scheme === "https" ? /:443$/ : /:80$/, "");
}

/** Section 3.5.1. The signature does not cover the realm. */
function headerPairs(header: string): Parameter[] {
  const [, list] = /^oauth\s+(.*)$/is.exec(header) ?? [];
  return [...(list ?? "").matchAll(/([^\s,="]+)="([^"]*)"/g)].flatMap(([, name = "", value = ""]): Parameter[] =>
    name.toLowerCase() === "realm" ? [] : [[decode(name), decode(value)]],
  );
}

const formPairs = (text: string): Parameter[] =>
  text
    .split("&")
    .filter((part) => part !== "")
    .map((part) => {
      const [name = "", ...value] = part.replaceAll("+", " ").split("=");
      return [decode(name), decode(value.join("="))];
    });

/**
 * Bytes, one character each, so that invalid UTF-8 can be signed too. Section 3.6: encodes every byte but the
 * unreserved characters, in upper case.
 */
const decode = (text: string) =>
  text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
const encode = (bytes: string) =>
  bytes.replace(/[^A-Za-z0-9._~-]/g, (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, "0")}`);
const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** A refusal in the form of the OAuth problem reporting extension. */
export function problem(status: number, name: string, message: string): SandboxRefusal {
  const body = new URLSearchParams({ oauth_problem: name, oauth_problem_advice: message }).toString();
  const headers = {
    "content-type": "application/x-www-form-urlencoded",
    "www-authenticate": `OAuth realm="sandbox", oauth_problem="${name}"`,
  };
  return new SandboxRefusal({ status, headers, body });
}
