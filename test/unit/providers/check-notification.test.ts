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

const challenge = (rules: object, more: object = {}) => mistakesIn({ challenge: rules, ...more });
const proof = { kind: "hmac" };

it("accepts each kind of challenge", () => {
  for (const [rules, more] of [
    [
      { query: "a", answer: '{"a":"${challenge}","b":"${proof}"}', content_type: "application/json", proof },
      { signature: hmac },
    ],
    [{ query: "a", answer: "${proof}", proof: { kind: "hash", content: "${challenge}${secret}${url}" } }],
    [
      {
        body: "a",
        when: "b",
        is: "c",
        proven: true,
        answer: "${proof}",
        proof: { kind: "hmac", content: "x${challenge}" },
      },
    ],
    [{ header: "x-a", answer_header: "a-hook-response" }],
    [{ when: "type", is: "1", answer: '{"type":1}', content_type: "application/json", proven: true }],
    [{ when_header: "x-type", is: "c", proven: true, confirm_url: "url", confirm_hosts: ["sns.*.amazonaws.com"] }],
  ] as const) {
    expect({ rules, mistakes: challenge(rules, more) }).toEqual({ rules, mistakes: [] });
  }
});

it.each([
  // What a stranger chooses would be signed in the form of a webhook.
  [{ query: "a", answer: "${proof}", proof: { kind: "hmac", content: "v0:${challenge}" } }, "challenge.proof.content"],
  [{ query: "a", answer: "${proof}", proof: { kind: "hmac", content: "${url}" } }, "challenge.proof.content"],
  [{ query: "a", answer: "${proof}", proof: { kind: "hash", content: "${challenge}" } }, "challenge.proof.content"],
  [{ query: "a", answer: "${proof}", proof: { kind: "hash", content: "${secret}" } }, "challenge.proof.content"],
  [{ query: "a", answer: "${proof}", proof: { kind: "md5" } }, "challenge.proof.kind"],
  [{ query: "a", answer: "${proof}" }, "challenge.answer"],
  [{ query: "a", answer: "${other}" }, "challenge.answer"],
  [{ query: "a", answer: '{"a":${challenge}}', content_type: "application/json" }, "challenge.answer"],
  [{ query: "a", method: "PUT" }, "challenge.method"],
  [{ query: "a", answer_header: "set-cookie" }, "challenge.answer_header"],
  [{ query: "a", answer_header: "location" }, "challenge.answer_header"],
  [{ query: "a", when_query: "b" }, "challenge.when"],
  [{ query: "a", when_query: "b", when: "c", is: "d" }, "challenge.when"],
  [{ answer: "ok" }, "challenge.when"],
  [{ query: "a", token_query: "t" }, "challenge.token_setting"],
  [{ query: "a", token_query: "t", token_setting: "missing" }, "challenge.token_setting"],
  [{ when: "a", is: "b", confirm_url: "u", confirm_hosts: ["a.example.com"] }, "challenge.proven"],
  [{ when: "a", is: "b", confirm_url: "u", proven: true }, "challenge.confirm_hosts"],
  [{ when: "a", is: "b", confirm_url: "u", proven: true, confirm_hosts: ["*.com"] }, "challenge.confirm_hosts.0"],
  [{ when: "a", is: "b", confirm_url: "u", proven: true, confirm_hosts: ["10.0.0.1"] }, "challenge.confirm_hosts.0"],
])("refuses the challenge %j", (rules, path) => {
  expect(challenge(rules)).toEqual([path]);
});

it.each(["shared_token", "basic"])("refuses a computed answer with the key of %s", (scheme) => {
  const signature = { scheme, ...(scheme === "basic" ? {} : { header: "x-t" }) };
  expect(challenge({ query: "a", answer: "${proof}", proof }, { signature })).toEqual(["challenge.proof"]);
});

const signed = { ...hmac, scheme: "public_key", hash: "", algorithm: "ed25519" };
const request = { url: "https://api.example.com/keys/${keyId}", key_id: { header: "x-k" } };

it("accepts keys of senders from the hosts of the description", () => {
  for (const key_request of [
    request,
    { url: "https://api.example.com/keys?id=${keyId}&a=b", key_id: { header: "x-k" }, path: "key", format: "jwk" },
    {
      url_value: { header: "x-u" },
      hosts: ["api.*.example.com"],
      format: "certificate",
      certificate_names: ["a.example.com"],
    },
    { url: "https://api.example.com/key", body: '{"id":"${integration.clientId}","key":"${keyId}"}' },
  ]) {
    expect(inSignature({ ...signed, key_request })).toEqual([]);
  }
});

it.each([
  [{}, "key_request.url"],
  [{ ...request, url_value: { header: "x-u" }, hosts: ["a.example.com"] }, "key_request.url"],
  [{ url: "http://api.example.com/k" }, "key_request.url"],
  [{ url: "https://api.example.com:444/k" }, "key_request.url"],
  [{ url: "https://${keyId}.example.com/k" }, "key_request.url"],
  [{ url: "https://api.example.com/k-${keyId}" }, "key_request.url"],
  [{ url: "https://api.example.com/${other}" }, "key_request.url"],
  [{ url_value: { header: "x-u" } }, "key_request.hosts"],
  [{ url_value: { header: "x-u" }, hosts: ["*.com"] }, "key_request.hosts.0"],
  [{ url_value: { header: "x-u" }, hosts: ["https://a.example.com"] }, "key_request.hosts.0"],
  [{ url_value: { header: "x-u" }, hosts: ["127.0.0.1"] }, "key_request.hosts.0"],
  [{ ...request, certificate_names: ["a.example.com"] }, "key_request.certificate_names"],
  [{ ...request, body: "{" }, "key_request.body"],
  [{ ...request, body: '{"a":"${integration.clientSecret}"}' }, "key_request.body"],
  [{ ...request, path: "a..b" }, "key_request.path"],
])("refuses the key request %j", (key_request, path) => {
  expect(inSignature({ ...signed, key_request })).toContain(`signature.${path}`);
});

it.each([
  [{ ...signed, algorithm: "" }, "signature.algorithm"],
  [{ ...signed, public_key: "x" }, "signature.public_key"],
  [{ ...signed, identity_path: "a" }, "signature.identity_path"],
  [{ ...hmac, signature_path: "a" }, "signature.header"],
  [{ ...hmac, header: "", signature_path: "a.*" }, "signature.signature_path"],
  [{ ...hmac, header: "", signature_path: "a.*.s", content_fields: ["b"] }, "signature.content_fields"],
  [{ ...hmac, content: "x", content_fields: ["b"] }, "signature.content"],
  [{ ...hmac, content_field_format: "name_value_lines" }, "signature.content_field_format"],
  [{ ...hmac, content: "${body.a}" }, "signature.content"],
  [{ ...hmac, content: "${header.X}${body}" }, "signature.content"],
  [{ ...hmac, content: "${integration.a}${body}" }, "signature.content"],
  [{ ...hmac, separator: ";" }, "signature.separator"],
  [{ ...hmac, part: "v", separator: "ab" }, "signature.separator"],
  [{ ...hmac, key_owner: "channel" }, "signature.key_owner"],
  [{ ...hmac, handshake_header: "x-h" }, "signature.key_owner"],
  [{ scheme: "jwt_secret" }, "signature.header"],
  [{ scheme: "jwt_secret", body: "a", body_hash_claim: "b" }, "signature.header"],
  [{ scheme: "jwt_secret", header: "x-j", audience: "${other}" }, "signature.audience"],
])("refuses the proof %j", (signature, path) => {
  expect(inSignature(signature)).toContain(path);
});

it("refuses a further way that proves nothing", () => {
  expect(mistakesIn({ signature: hmac, further_signatures: [{ scheme: "basic" }] })).toEqual([]);
  expect(mistakesIn({ signature: hmac, further_signatures: [{}] })).toEqual(["further_signatures"]);
  expect(mistakesIn({ further_signatures: [hmac] })).toEqual(["further_signatures"]);
});
