import { expect, it } from "vitest";
import { bearerChallenge } from "../../../../src/core/mcp/challenge.ts";
import {
  canonicalResource,
  coversServer,
  isSameIssuer,
  resourceMetadataUrls,
  serverMetadataUrls,
} from "../../../../src/core/mcp/well-known.ts";

it("reads the Bearer challenge among others", () => {
  const text =
    'Basic realm="a, b", Bearer realm="OAuth", resource_metadata="https://a.example/.well-known/x", scope="read write:all", error="insufficient_scope", error_description="says \\"no\\", again", DPoP algs="ES256"';
  const wanted = {
    resourceMetadata: "https://a.example/.well-known/x",
    scopes: ["read", "write:all"],
    error: "insufficient_scope",
  };
  expect(bearerChallenge([text])).toEqual(wanted);
  expect(bearerChallenge(["Basic realm=x", "bearer scope=read"])).toMatchObject({ scopes: ["read"] });
  expect(bearerChallenge(['Basic scope="a"'])).toEqual({ resourceMetadata: undefined, scopes: [], error: undefined });
  expect(bearerChallenge(["Bearer"])).toEqual({ resourceMetadata: undefined, scopes: [], error: undefined });
  expect(bearerChallenge([`Bearer ${"a".repeat(100_000)}`]).scopes).toEqual([]);
});

it("looks for metadata in the order of the specification", () => {
  const root = "https://m.example/.well-known/oauth-protected-resource";
  expect(resourceMetadataUrls(new URL("https://m.example/public/mcp"))).toEqual([`${root}/public/mcp`, root]);
  expect(resourceMetadataUrls(new URL("https://m.example"))).toEqual([root]);
  expect(serverMetadataUrls(new URL("https://a.example/tenant1"))).toEqual([
    "https://a.example/.well-known/oauth-authorization-server/tenant1",
    "https://a.example/.well-known/openid-configuration/tenant1",
    "https://a.example/tenant1/.well-known/openid-configuration",
  ]);
  expect(serverMetadataUrls(new URL("https://a.example/"))).toEqual([
    "https://a.example/.well-known/oauth-authorization-server",
    "https://a.example/.well-known/openid-configuration",
  ]);
});

it("accepts only the metadata of the server's own resource and issuer", () => {
  const server = new URL("https://m.example/v1/mcp");
  for (const resource of [
    "https://m.example/v1/mcp",
    "https://m.example/v1",
    "https://m.example",
    "https://m.example/",
  ])
    expect(coversServer(resource, server), resource).toBe(true);
  for (const resource of [
    "https://m.example/v1/m",
    "https://m.example/v1/mcp/x",
    "https://evil.example",
    "http://m.example",
    "",
  ])
    expect(coversServer(resource, server), resource).toBe(false);
  expect(canonicalResource(new URL("https://M.example/"))).toBe("https://m.example");
  expect(isSameIssuer("https://a.example", "https://a.example/")).toBe(true);
  for (const other of ["https://a.example/x", "https://A.example", "https://a.example//", "https://a.example.evil"])
    expect(isSameIssuer("https://a.example", other), other).toBe(false);
});
