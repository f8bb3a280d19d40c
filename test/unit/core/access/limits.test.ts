import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { mistakesInLimits } from "../../../../src/core/access/limit-mistakes.ts";
import { compileLimits } from "../../../../src/core/access/limits.ts";
import { coversPath } from "../../../../src/core/access/path-pattern.ts";
import { coversTool } from "../../../../src/core/access/tool-pattern.ts";
import { mistakeInPath } from "../../../../src/core/outgoing/provider-path.ts";
import { AccessLimitsSchema } from "../../../../src/gen/latchkey/v1/access_pb.ts";

type Limits = Omit<MessageInitShape<typeof AccessLimitsSchema>, "$typeName">;

const limitsOf = (limits: Limits) => {
  const given = create(AccessLimitsSchema, limits);
  expect(mistakesInLimits(given)).toEqual([]);
  const compiled = compileLimits(given);
  if (compiled === undefined) throw new Error("the limits limit nothing");
  return compiled;
};

const refusal = (
  limits: Limits,
  { method = "GET", host = "api.example.com", basePath = "", path = "/", rawHeaders = [] as readonly string[] },
) => limitsOf(limits).refusalOf({ method, host, basePath, path, rawHeaders });

it("takes limits that limit nothing for none", () => {
  expect(compileLimits(undefined)).toBe(undefined);
  expect(compileLimits(create(AccessLimitsSchema))).toBe(undefined);
});

it("admits the named connections, and all of an integration without an id", () => {
  const limits = limitsOf({ connections: [{ integration: "github", id: "ada" }, { integration: "calendar" }] });
  const admits = (integration: string, id: string) => limits.admitsConnection({ integration, id });
  expect(admits("github", "ada")).toBe(true);
  expect(admits("github", "Ada")).toBe(false);
  expect(admits("github", "")).toBe(false);
  expect(admits("calendar", "anyone")).toBe(true);
  expect(admits("slack", "ada")).toBe(false);
});

it.each([
  ["GET", "/", [], undefined],
  ["POST", "/", [], "method"],
  ["get", "/", [], "method"],
  ["GET", "/", ["X-HTTP-Method-Override", "DELETE"], "method"],
  ["GET", "/", ["x-http-method-override", "GET"], undefined],
  ["GET", "/", ["Accept", "*/*", "X-Method-Override", "get, DELETE"], "method"],
  ["GET", "/?a=1&_method=DELETE", [], "method"],
  ["GET", "/?_method=get", [], undefined],
  ["GET", "/?%5fmethod=PUT", [], "method"],
  ["GET", "/?method=PUT", [], undefined],
  ["GET", "/?$httpMethod=DELETE", [], "method"],
  ["GET", "/?X-HTTP-Method-Override=DELETE", [], "method"],
  ["GET", "/?_M%45THOD=DELETE", [], "method"],
  ["GET", "/?_%6dethod=DELETE", [], "method"],
  ["GET", "/", ["X_HTTP_Method_Override", "DELETE"], "method"],
  ["GET", "/", ["Nango-Proxy-X-HTTP-Method-Override", "DELETE"], "method"],
] as const)("limits the method, and what servers take for it: %s %s %j", (method, path, rawHeaders, expected) => {
  expect(refusal({ methods: ["GET"] }, { method, path, rawHeaders })).toBe(expected);
});

it.each([
  ["api.example.com", undefined],
  ["API.example.com", "host"],
  ["api.example.com:8443", "host"],
  ["a.b.example.net", undefined],
  ["example.net", "host"],
  [".example.net", "host"],
  ["evilexample.net", "host"],
  ["127.0.0.1:9000", undefined],
  ["127.0.0.1", "host"],
])("limits the host: %s", (host, expected) => {
  expect(refusal({ hosts: ["api.example.com", "*.example.net", "127.0.0.1:9000"] }, { host })).toBe(expected);
});

it.each([
  ["/repos/ada/issues", undefined],
  ["/repos/ada/issues?page=1/../2", undefined],
  ["/repos/ada/issues/", "path"],
  ["/repos//issues", "path"],
  ["/repos/a/b/issues", "path"],
  ["/repos/a%2Fb/issues", "path"],
  ["/repos/a%252Fb/issues", "path"],
  ["/repos/a;b/issues", "path"],
  ["/repos/%61da/issues", undefined],
  ["/repos/caf%C3%A9/issues", undefined],
  ["/repos/%c0%af/issues", "path"],
  ["/repos/%ef%bc%8f/issues", "path"],
  ["/repos/%2e%2e/issues", "path"],
  ["/repos/%zz/issues", "path"],
  ["/repos/.github/issues", undefined],
  ["/user", "path"],
  ["/user/", undefined],
  ["/user/a/b", undefined],
  ["/user/..%2Frepos", "path"],
  ["/USER/a", "path"],
])("limits the path: %s", (path, expected) => {
  expect(refusal({ paths: ["/repos/*/issues", "/user/**"] }, { path })).toBe(expected);
});

it("holds the path at the provider to the patterns, with the base path", () => {
  expect(refusal({ paths: ["/api/*"] }, { basePath: "/api", path: "/chat.post" })).toBe(undefined);
  expect(refusal({ paths: ["/chat.post"] }, { basePath: "/api", path: "/chat.post" })).toBe("path");
});

it("names every mistake with its place", () => {
  const wrong = create(AccessLimitsSchema, {
    connections: [{ id: "ada" }],
    methods: ["get"],
    paths: ["repos", "/a*", "/**/b", "/a?b", "/a/../b", "/a%2fb"],
    hosts: ["https://example.com", "Example.com", "*.*.com", "*", "a@b", "example.com.", "example.com:443/x"],
  });
  expect(mistakesInLimits(wrong).map(({ path }) => path.join("."))).toEqual([
    "connections.0.integration",
    "methods.0",
    ...[0, 1, 2, 3, 4, 5].map((i) => `paths.${i}`),
    ...[0, 1, 2, 3, 4, 5, 6].map((i) => `hosts.${i}`),
  ]);
});

it.each([
  ["/a/**", "/a/b/*", true],
  ["/a/**", "/a/**", true],
  ["/a/**", "/a", false],
  ["/a/*", "/a/b", true],
  ["/a/*", "/a/**", false],
  ["/a/*", "/a/*/c", false],
  ["/a/b", "/a/*", false],
  ["/**", "/", true],
])("says whether %s covers %s", (wide, narrow, expected) => {
  expect(coversPath(wide, narrow)).toBe(expected);
});

it("admits no path that a lenient server would take for one outside the patterns", () => {
  const pieces = [
    ...["/", "/", "/", "a", "b", "admin", "public", ".", "..", ";", ";x=1", "\\", "%2f", "%2F", "%5c", "%2e", "%2E%2e"],
    ...["%252f", "%252e%252e", "%3b", "%00", "%61", "%c0%af", "%c0%ae", "%ef%bc%8f", "%", "%zz", "%e2%80%a6", "%u002f"],
  ];
  const paths = ["/public/**", "/a/*/b", "/admin/a"];
  const limits = limitsOf({ paths });
  let state = 29;
  const random = (below: number) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * below);
  };
  const starts = ["/public/", "/a/", "/admin/", "/"];
  let admitted = 0;
  for (let i = 0; i < 100_000; i += 1) {
    let path = starts[random(starts.length)] ?? "/";
    for (let left = random(6); left > 0; left -= 1) path += pieces[random(pieces.length)];
    if (mistakeInPath(path) !== undefined) continue;
    const request = { method: "GET", host: "", basePath: "", path, rawHeaders: [] };
    if (limits.refusalOf(request) !== undefined) continue;
    admitted += 1;
    for (const seen of readings(path)) expect(matchesAny(paths, seen), `${path} may be read as ${seen}`).toBe(true);
  }
  // Otherwise the loop shows nothing.
  expect(admitted).toBeGreaterThan(500);
});

/** Returns what servers with different habits may take a path for. */
function readings(path: string): readonly string[] {
  const once = decoded(path);
  return [path, once, decoded(once)].flatMap((text) => [
    text,
    resolved(text),
    resolved(text.replaceAll(/;[^/]*/g, "")),
  ]);
}

const decoded = (text: string): string =>
  text
    .replaceAll(/%u([0-9a-f]{4})/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
    .replaceAll(/%c0%a([ef])/gi, (_, last: string) => (last === "f" ? "/" : "."))
    .replaceAll(/(?:%[0-9a-f]{2})+/gi, (bytes) => Buffer.from(bytes.replaceAll("%", ""), "hex").toString())
    .normalize("NFKC");

function resolved(text: string): string {
  const out: string[] = [];
  for (const segment of text
    .replaceAll("\\", "/")
    .split("/")
    .filter((one) => one !== "" && one !== ".")) {
    if (segment === "..") out.pop();
    else out.push(segment);
  }
  return `/${out.join("/")}${/[/\\]$/.test(text) && out.length > 0 ? "/" : ""}`;
}

/** Compares by segments, unlike the code that is tested. */
const matchesAny = (patterns: readonly string[], path: string): boolean =>
  patterns.some((pattern) => {
    const [wanted, found] = [pattern.split("/"), path.split("/")];
    if (wanted.at(-1) !== "**" && wanted.length !== found.length) return false;
    return wanted.every((segment, i) =>
      segment === "**" ? found[i] !== undefined : segment === "*" ? (found[i] ?? "") !== "" : segment === found[i],
    );
  });

it.each([
  [["search"], "search", true],
  [["search"], "Search", false],
  [["search"], "search2", false],
  [["search"], "", false],
  [["read_*"], "read_page", true],
  [["read_*"], "read_", true],
  [["read_*"], "read", false],
  [["a", "b*"], "bc", true],
  [["*"], "anything", true],
  [[], "anything", true],
] as const)("admits tools by their names: %j %s", (tools, tool, expected) => {
  const limits = limitsOf({ connections: [{ integration: "notion" }], tools: [...tools] });
  expect(limits.admitsTool(tool)).toBe(expected);
  expect(limits.limitsTools).toBe(tools.length > 0);
  expect(limits.limitsRequests).toBe(false);
});

it.each(["", "a*b", "**", "a\n", "x".repeat(256)])("refuses %j as the name of a tool", (tool) => {
  expect(mistakesInLimits(create(AccessLimitsSchema, { tools: [tool] }))).toMatchObject([{ path: ["tools", "0"] }]);
});

it.each([
  ["search", "search", true],
  ["search*", "search", true],
  ["search*", "search_*", true],
  ["*", "a*", true],
  ["search_*", "search*", false],
  ["search", "search*", false],
] as const)("knows whether %s covers %s", (wide, narrow, expected) => {
  expect(coversTool(wide, narrow)).toBe(expected);
});
