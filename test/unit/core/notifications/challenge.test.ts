import { createHash, createHmac } from "node:crypto";
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { confirmationOf, knowsToken } from "../../../../src/core/notifications/challenge.ts";
import { proofOf } from "../../../../src/core/notifications/proof.ts";
import { ChallengeRulesSchema, SignatureRulesSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { knownRules, reading, replyTo } from "../../../support/wire/notifications.ts";

const known = (name: string, sent: Parameters<typeof reading>[0]) => replyTo(knownRules(name).challenge, reading(sent));
const answered = (
  rules: MessageInitShape<typeof ChallengeRulesSchema>,
  sent: Parameters<typeof reading>[0],
  context: Parameters<typeof replyTo>[2] = {},
) => replyTo(create(ChallengeRulesSchema, rules), reading(sent), context);

it("W27 echoes Microsoft's token as plain text that no browser takes for a page", () => {
  expect(known("microsoft", { query: "validationToken=a%20b<script>" })).toEqual({
    status: 200,
    headers: { "content-type": "text/plain; charset=utf-8", "x-content-type-options": "nosniff" },
    body: "a b<script>",
  });
  for (const query of ["", "validationToken=", "validationToken=%zz", `validationToken=${"x".repeat(4_097)}`]) {
    expect(known("microsoft", { query })).toBeUndefined();
  }
});

it("echoes Slack's challenge on request", () => {
  expect(known("slack", { body: '{"type":"url_verification","challenge":"c"}' })?.body).toBe("c");
  expect(known("slack", { body: '{"type":"event_callback","challenge":"c"}' })).toBeUndefined();
  expect(known("slack", { body: '{"challenge":"c"}' })).toBeUndefined();
});

it("returns Asana's secret, and nothing that would end the header", () => {
  expect(known("asana", { headers: { "x-hook-secret": "s1" } })).toMatchObject({
    headers: { "x-hook-secret": "s1" },
    body: "",
  });
  for (const evil of ["a b", "a\r\nset-cookie: x", "é", "", "\0"]) {
    expect(known("asana", { headers: { "x-hook-secret": evil } })).toBeUndefined();
  }
  expect(known("asana", { body: '{"events":[]}' })).toBeUndefined();
});

it("answers JSON under the requested name", () => {
  expect(
    answered({ body: "a.challenge", contentType: "application/json" }, { body: '{"a":{"challenge":"</script>\\""}}' }),
  ).toEqual({
    status: 200,
    headers: { "content-type": "application/json; charset=utf-8", "x-content-type-options": "nosniff" },
    body: '{"challenge":"</script>\\""}',
  });
});

it("protects its own headers from echoed ones", () => {
  const rules = { header: "x-content-type-options" };
  expect(answered(rules, { headers: { "x-content-type-options": "none" } })?.headers["x-content-type-options"]).toBe(
    "nosniff",
  );
});

it("treats nothing as a challenge without a rule", () => {
  expect(replyTo(undefined, reading({ query: "validationToken=x" }))).toBeUndefined();
});

describe("a computed answer", () => {
  const mac = (secret: string, text: string) => createHmac("sha256", secret).update(text);

  it("is X's, LinkedIn's and eBay's", () => {
    const crc = { query: "crc_token", contentType: "application/json", answer: '{"response_token":"${proof}"}' };
    const x = { ...crc, proof: { kind: "hmac", encoding: "base64", prefix: "sha256=" } };
    const get = { method: "GET", secret: "app" };
    expect(answered(x, { query: "crc_token=challenge_string" }, get)?.body).toBe(
      `{"response_token":"sha256=${mac("app", "challenge_string").digest("base64")}"}`,
    );
    const linkedin = {
      query: "challengeCode",
      contentType: "application/json",
      answer: '{"challengeCode":"${challenge}","challengeResponse":"${proof}"}',
      proof: { kind: "hmac" },
    };
    const code = "890e4665-4dfe-4ab1-b689-ed553bceeed0";
    expect(JSON.parse(answered(linkedin, { query: `challengeCode=${code}` }, get)?.body ?? "")).toEqual({
      challengeCode: code,
      challengeResponse: mac("app", code).digest("hex"),
    });
    const ebay = {
      query: "challenge_code",
      contentType: "application/json",
      answer: '{"challengeResponse":"${proof}"}',
      proof: { kind: "hash", content: "${challenge}${secret}${url}" },
    };
    const url = "https://hooks.latchkey.test/webhook/e1/ebay";
    expect(answered(ebay, { query: "challenge_code=a8628072" }, { ...get, secret: "token\nold", url })?.body).toBe(
      `{"challengeResponse":"${createHash("sha256").update(`a8628072token${url}`).digest("hex")}"}`,
    );
    // The request's URL has the challenge, the registered one has not.
    const asked = { ...get, secret: "token", url: `${url}?a=%7E&challenge_code=a8628072&b=` };
    expect(answered(ebay, { query: "challenge_code=a8628072" }, asked)?.body).toBe(
      `{"challengeResponse":"${createHash("sha256").update(`a8628072token${url}?a=%7E&b=`).digest("hex")}"}`,
    );
    expect(answered(x, { query: "crc_token=a" }, { ...get, secret: "" })).toBeUndefined();
  });

  it("is never a signature that a webhook could have", async () => {
    const x = { query: "crc_token", answer: "${proof}", proof: { kind: "hmac" } };
    const signature = create(SignatureRulesSchema, { scheme: "hmac", header: "x-s", hash: "sha256", encoding: "hex" });
    const jwt = `${Buffer.from('{"alg":"HS256"}').toString("base64url")}.${Buffer.from('{"exp":9}').toString("base64url")}`;
    for (const text of [
      '{"a":1}',
      "[]",
      "a b",
      "a.b",
      jwt,
      "POSThttps://x",
      "a:b",
      "a&b",
      '"a"',
      "x".repeat(257),
      "é",
    ]) {
      const sent = { query: `crc_token=${encodeURIComponent(text)}` };
      expect({ text, reply: answered(x, sent, { secret: "app" }) }).toEqual({ text, reply: undefined });
    }
    // What is signed for strangers proves no webhook.
    const text = "a-text-of-a-stranger";
    const oracle = answered(x, { query: `crc_token=${text}` }, { secret: "app" })?.body ?? "";
    expect(oracle).toBe(mac("app", text).digest("hex"));
    const request = {
      rules: signature,
      reading: reading({ headers: { "x-s": oracle }, body: text }),
      method: "POST",
      url: "https://x.test",
      secret: "app",
      keys: async () => [],
      nowMs: 0,
    };
    expect(await proofOf({ ...request, refusesChallenges: true })).toEqual({
      proven: false,
      reason: "wrong_signature",
    });
    expect(await proofOf(request)).toEqual({ proven: true });
  });
});

it("recognizes a challenge by its method, its query or a header", () => {
  const query = "hub.mode=subscribe&hub.challenge=1158201444";
  const meta = { query: "hub.challenge", method: "GET", whenQuery: "hub.mode", is: "subscribe" };
  expect(answered(meta, { query }, { method: "GET" })?.body).toBe("1158201444");
  expect(answered(meta, { query }, { method: "POST" })).toBeUndefined();
  expect(answered(meta, { query: "hub.challenge=1" }, { method: "GET" })).toBeUndefined();
  const byHeader = { body: "token", whenHeader: "x-type", is: "confirm" };
  expect(answered(byHeader, { body: '{"token":"t"}', headers: { "x-type": "confirm" } })?.body).toBe("t");
  expect(answered(byHeader, { body: '{"token":"t"}', headers: { "x-type": "event" } })).toBeUndefined();
});

it("answers by a template, a constant or another header", () => {
  const json = "application/json";
  const strava = { query: "hub.challenge", contentType: json, answer: '{"hub.challenge":"${challenge}"}' };
  expect(answered(strava, { query: 'hub.challenge=a"b' })?.body).toBe('{"hub.challenge":"a\\"b"}');
  const okta = {
    header: "x-okta-verification-challenge",
    contentType: json,
    answer: '{"verification":"${challenge}"}',
  };
  const asked = { headers: { "x-okta-verification-challenge": "c é" } };
  expect(answered(okta, asked)).toMatchObject({
    headers: { "content-type": "application/json; charset=utf-8" },
    body: '{"verification":"c é"}',
  });
  const ping = { when: "type", is: "1", contentType: json, answer: '{"type":1}' };
  expect(answered(ping, { body: '{"type":1}' })?.body).toBe('{"type":1}');
  expect(answered(ping, { body: '{"type":2}' })).toBeUndefined();
  const smartsheet = { header: "smartsheet-hook-challenge", answerHeader: "smartsheet-hook-response" };
  expect(answered(smartsheet, { headers: { "smartsheet-hook-challenge": "c1" } })).toMatchObject({
    headers: { "smartsheet-hook-response": "c1" },
    body: "",
  });
  expect(answered(smartsheet, { headers: { "smartsheet-hook-challenge": "a b" } })).toBeUndefined();
});

it("knows a sender by the operator's token", () => {
  const rules = create(ChallengeRulesSchema, { tokenQuery: "hub.verify_token", tokenSetting: "verifyToken" });
  const knows = (query: string, token: string | undefined) => knowsToken(rules, reading({ query }), () => token);
  expect(knows("hub.verify_token=t-1", "t-1")).toBe(true);
  for (const query of ["", "hub.verify_token=", "hub.verify_token=t-2", "hub.verify_token=T-1"]) {
    expect(knows(query, "t-1")).toBe(false);
  }
  expect(knows("hub.verify_token=", "")).toBe(false);
  expect(knows("hub.verify_token=undefined", undefined)).toBe(false);
});

it("confirms only at hosts of the description", () => {
  const rules = create(ChallengeRulesSchema, { confirmUrl: "SubscribeURL", confirmHosts: ["sns.*.amazonaws.com"] });
  const target = (SubscribeURL: unknown) => confirmationOf(rules, reading({ body: JSON.stringify({ SubscribeURL }) }));
  const right = "https://sns.eu-west-1.amazonaws.com/?Action=ConfirmSubscription&Token=1";
  expect(target(right)).toBe(right);
  for (const wrong of [
    "https://evil.test/",
    "http://sns.eu-west-1.amazonaws.com/",
    "https://sns.eu-west-1.amazonaws.com.evil.test/",
    "https://evil.s3.amazonaws.com/",
    "https://sns.eu-west-1.amazonaws.com:444/",
    "https://a@sns.eu-west-1.amazonaws.com/",
    "",
    1,
    null,
  ]) {
    expect({ wrong, target: target(wrong) }).toEqual({ wrong, target: undefined });
  }
});
