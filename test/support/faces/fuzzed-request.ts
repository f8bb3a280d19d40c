import type { Random } from "../policies/random.ts";

/** A request to a provider, which every face sends in its own way. */
export interface FuzzedRequest {
  readonly method: string;
  /** Path at the provider and query: one character is one byte. */
  readonly target: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  readonly place: Place;
  readonly caller: CallerKind;
}

/** Hosts of the provider: that of the base URL, another one, and one whose base URL has a path. */
export type Place = "first" | "second" | "based";
export const places: readonly Place[] = ["first", "second", "based"];

export type CallerKind = "key" | "session" | "limited key";
export const callerKinds: readonly CallerKind[] = ["key", "session", "limited key"];

/** The path of the base URL of `based`. */
export const basePath = "/v1";

const segments = [
  ...["admin", "admin", "repos", "repos", "issues", "files", "123", "12", "pay", "big", "teamless", "v1", "a", "b"],
  ...["%C3%A9", "a+b", "a%20b", "_method", "*", "~a", "a:b", "a@b", "a,b", "=", "$a", "'", "(x)"],
];
/** What two servers may read differently. */
const oddities = [
  ...[".", "..", "%2e", "%2E%2e", ".%2e", "%2f", "%2F..%2f", "%5c", "\\", ";", ";x=y", "..;", "%3b", "//", "%25", "%2"],
  ...["%00", "%0a", "%0d%0aX: y", "%zz", "%u2215", "%EF%BC%8F", "%c0%af", "%C0%AE", "%e2%88%95", "\xe9", "\xff"],
  ...["#", "#x", "?", "??", "&", " ", "\t", "%20", "%252e%252e", "%252f", "^", "|", "{x}", '"', "<", "`", "[", "%7f"],
];
const names = ["drop", "dr%6Fp", "DROP", "a", "b", "_method", "_METHOD", "$httpmethod", "x-http-method-override", ""];
const values = [
  "all",
  "one",
  "%61ll",
  "all%00",
  "a+b",
  "a%2Bb",
  "%zz",
  "delete",
  "DELETE",
  "",
  "=",
  "%C3%A9",
  "\xe9",
  "x;y=z",
];
const methods = ["GET", "GET", "GET", "POST", "POST", "DELETE", "PUT", "PATCH", "HEAD", "OPTIONS", "PROPFIND"];
const overrides = ["X-HTTP-Method-Override", "X-Http-Method", "X-Method-Override", "X_HTTP_Method_Override"];
const fields: readonly (readonly [string, readonly string[]])[] = [
  ["x-team", ["red", "blue", "green", "RED", "red, blue", " red", "r\xe9d", ""]],
  ["X-Team", ["red", "blue"]],
  ["x_team", ["red"]],
  ["accept", ["*/*", "text/plain"]],
  ["nango-proxy-x-team", ["red"]],
  ["nango-proxy-x-http-method-override", ["DELETE"]],
  ["cookie", ["a=b"]],
  ["forwarded", ["for=x"]],
  ["x-forwarded-host", ["evil.test"]],
  ["x-original-url", ["/admin"]],
  ["x-rewrite-url", ["/admin"]],
  ["range", ["bytes=0-1"]],
  ["x-long", ["x".repeat(300)]],
];

interface BodyKind {
  readonly type: string;
  readonly texts: readonly string[];
}

const bodies: readonly BodyKind[] = [
  {
    type: "application/json",
    texts: [
      ...['{"amount":1}', '{"amount":1000}', '{"amount":1,"amount":1000}', '{"Amount":1000}', '{"amount":"1000"}'],
      ...["[]", "{", '{"amount":1e3}', '{"\\u0061mount":1000}', `{"amount":1,"x":"${"x".repeat(60)}"}`, "null", ""],
    ],
  },
  {
    type: "application/x-www-form-urlencoded",
    texts: ["amount=1", "amount=1000", "_method=DELETE", "a=b&_method=delete", "%5Fmethod=delete", "_method=post", "a"],
  },
  { type: "text/plain", texts: ["x", "x".repeat(30), "_method=delete"] },
  { type: "", texts: ['{"amount":1000}', "x"] },
];

/** Draws a request. Most are ordinary, or have one oddity: two hide each other. */
export function fuzzedRequest(random: Random): FuzzedRequest {
  const method = random.of(methods);
  const { headers, body } = contentFor(method, random);
  return {
    method,
    target: targetFor(random),
    headers: [...headersFor(random), ...headers],
    body,
    place: random.of(places),
    caller: random.of(["key", ...callerKinds]),
  };
}

const oneIn = (random: Random, n: number): boolean => random.below(n) === 0;

function targetFor(random: Random): string {
  let path = "";
  for (let n = 1 + random.below(3); n > 0; n -= 1) path += `/${random.of(segments)}`;
  if (oneIn(random, 3)) path = withOddity(path, random);
  if (oneIn(random, 20)) path = `/${"x".repeat(random.below(60))}`;
  if (oneIn(random, 3)) path += queryFor(random);
  // HTTP/1.1 takes a space at the end for a second one before the version.
  return path.trimEnd();
}

function withOddity(path: string, random: Random): string {
  const at = 1 + random.below(path.length);
  switch (random.below(5)) {
    case 0:
      return `${path.slice(0, at)}${random.of(oddities)}${path.slice(at)}`;
    case 1:
      return `${path}/${random.of(oddities)}/${random.of(segments)}`;
    case 2:
      return `/${random.of(oddities)}${path}`;
    case 3: {
      // One character is written in another way.
      const code = path
        .charCodeAt(at - 1)
        .toString(16)
        .padStart(2, "0");
      return `${path.slice(0, at - 1)}%${oneIn(random, 2) ? code.toUpperCase() : code}${path.slice(at)}`;
    }
    default:
      return oneIn(random, 2) ? path.toUpperCase() : `${path}/`;
  }
}

function queryFor(random: Random): string {
  const pairs = Array.from({ length: 1 + random.below(3) }, () => {
    const name = random.of(names);
    return oneIn(random, 8) ? name : `${name}=${random.of(values)}`;
  });
  return `?${pairs.join(random.of(["&", "&", "&", "&&", ";"]))}`;
}

function headersFor(random: Random): [string, string][] {
  const found: [string, string][] = [];
  if (oneIn(random, 8))
    found.push([random.of(overrides), random.of(["DELETE", "delete", "GET", "POST", "", "X, DELETE"])]);
  for (let n = random.below(3); n > 0; n -= 1) {
    const [name, texts] = random.of(fields);
    found.push([name, random.of(texts)]);
  }
  return found;
}

function contentFor(method: string, random: Random): { headers: [string, string][]; body: string } {
  if (method === "GET" || method === "HEAD" || method === "OPTIONS" || oneIn(random, 4))
    return { headers: [], body: "" };
  const { type, texts } = random.of(bodies);
  // A body above the limit of policies.
  const body = oneIn(random, 300) ? `{"amount":1,"x":"${"x".repeat(70_000)}"}` : random.of(texts);
  return { headers: type === "" ? [] : [["content-type", type]], body };
}
