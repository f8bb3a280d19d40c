import { expect, it } from "vitest";
import { ProviderMistake, readProvider } from "../../../src/providers/read.ts";

const values = { a: { header: "x-a" } };
const hmac = { scheme: "hmac", header: "x-s", hash: "sha256", encoding: "hex" };

function mistakesIn(notification: object): string[] {
  try {
    readProvider({ name: "mine", api_key: {}, notification });
    return [];
  } catch (error) {
    if (!(error instanceof ProviderMistake)) throw error;
    return error.mistakes.map(({ path }) => path.join(".").replace(/^notification\./, ""));
  }
}
const inSignature = (signature: object, more: object = {}) => mistakesIn({ signature, ...more });

it("takes a state from before there was anything to compare it with", () => {
  expect(mistakesIn({ sync_state: "sync" })).toEqual([]);
});

it("accepts each scheme with its required fields", () => {
  for (const signature of [
    {},
    hmac,
    { ...hmac, content: "v0:${timestamp}:${body}", timestamp_header: "x-t", tolerance: "300s" },
    { ...hmac, content: "${timestamp}.${body}", part: "v1", timestamp_part: "t" },
    { ...hmac, content: "${url}${form}", body_hash_query: "h" },
    { scheme: "standard_webhooks" },
    { scheme: "shared_token", header: "x-t" },
    { scheme: "shared_token", query: "t" },
    { scheme: "shared_token", body: "value.*.t" },
    { scheme: "channel_token", header: "x-t" },
    { scheme: "jwt", header: "x-j", jwks_url: "https://a.example/k", issuer: "a", audience: "${url}" },
    { scheme: "jwt", header: "x-j", jwks_url: "https://a.example/k", issuer: "a", identity_claim: "email" },
  ]) {
    expect({ signature, mistakes: inSignature(signature) }).toEqual({ signature, mistakes: [] });
  }
});

it.each([
  [{ scheme: "other" }, "signature.scheme"],
  [{ ...hmac, header: "" }, "signature.header"],
  [{ ...hmac, header: "X-S" }, "signature.header"],
  [{ ...hmac, header: "x s" }, "signature.header"],
  [{ ...hmac, hash: "md5" }, "signature.hash"],
  [{ ...hmac, encoding: "base32" }, "signature.encoding"],
  [{ ...hmac, content: "${other}${body}" }, "signature.content"],
  [{ ...hmac, content: "${body" }, "signature.content"],
  [{ ...hmac, content: "${url}" }, "signature.content"],
  [{ ...hmac, content: "${form}" }, "signature.content"],
  [{ ...hmac, content: "${body}", body_hash_query: "h" }, "signature.content"],
  [{ ...hmac, content: "${timestamp}${body}" }, "signature.content"],
  [{ ...hmac, timestamp_header: "x-t" }, "signature.content"],
  [{ ...hmac, content: "${timestamp}${body}", timestamp_part: "t" }, "signature.part"],
  [{ ...hmac, tolerance: "300s" }, "signature.tolerance"],
  [{ ...hmac, timestamp_unit: "h" }, "signature.timestamp_unit"],
  [{ ...hmac, key_encoding: "base32" }, "signature.key_encoding"],
  [{ ...hmac, key_default: "api_key" }, "signature.key_default"],
  [{ scheme: "shared_token" }, "signature.header"],
  [{ scheme: "shared_token", header: "x-t", query: "t" }, "signature.header"],
  [{ scheme: "shared_token", body: "a..b" }, "signature.body"],
  [{ scheme: "channel_token" }, "signature.header"],
  [{ scheme: "jwt", header: "x-j", jwks_url: "https://a.example", issuer: "a" }, "signature.audience"],
  [{ scheme: "jwt", header: "x-j", issuer: "a", audience: "b" }, "signature.jwks_url"],
  [{ scheme: "jwt", header: "x-j", jwks_url: "http://a.example", issuer: "a", audience: "b" }, "signature.jwks_url"],
  [{ scheme: "jwt", header: "x-j", jwks_url: "https://a.example", audience: "b" }, "signature.issuer"],
])("refuses the signature %j", (signature, path) => {
  expect(inSignature(signature)).toContain(path);
});

it.each([
  [{ lookups: [{ field: "metadata.x", value: "b" }] }, "lookups.0.value"],
  [{ lookups: [{ field: "metadata.x", value: "constructor" }] }, "lookups.0.value"],
  [{ message_id: ["a", "b"] }, "message_id.1"],
  [{ channel: "b" }, "channel"],
  [{ number: "a" }, "channel"],
  [{ channel: "a", number: "b" }, "number"],
  [{ state: "b", sync_state: "sync" }, "state"],
  [{ resource_id: "b" }, "resource_id"],
  [{ kind: "b" }, "kind"],
  [{ header_prefix: "X-A-" }, "header_prefix"],
  [{ secret_headers: ["X-A"] }, "secret_headers.0"],
  [{ values: { a: {} } }, "values.a"],
  [{ values: { a: { header: "x-a", form: "a" } } }, "values.a"],
  [{ values: { a: { header: "X-A" } } }, "values.a.header"],
  [{ values: { a: { body: "a..b" } } }, "values.a.body"],
  [{ values: { a: { body: "a", json: "." } } }, "values.a.json"],
  [{ challenge: {} }, "challenge.query"],
  [{ challenge: { query: "a", body: "b" } }, "challenge.query"],
  [{ challenge: { query: "a", content_type: "text/html" } }, "challenge.content_type"],
  [{ challenge: { header: "set-cookie" } }, "challenge.header"],
  [{ challenge: { body: "a", when: "type" } }, "challenge.when"],
  [{ challenge: { body: "a", when: "a..b", is: "x" } }, "challenge.when"],
  [{ header_prefix: "x-", signature: { scheme: "shared_token", header: "x-t" } }, "secret_headers"],
])("refuses the rules %j", (rules, path) => {
  expect(mistakesIn({ values, ...rules })).toEqual([path]);
});
