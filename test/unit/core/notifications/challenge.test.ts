import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { challengeAnswer } from "../../../../src/core/notifications/challenge.ts";
import { ChallengeRulesSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";
import { knownRules, reading } from "../../../support/wire/notifications.ts";

const known = (name: string, sent: Parameters<typeof reading>[0]) =>
  challengeAnswer(knownRules(name).challenge, reading(sent));
const answered = (rules: MessageInitShape<typeof ChallengeRulesSchema>, sent: Parameters<typeof reading>[0]) =>
  challengeAnswer(create(ChallengeRulesSchema, rules), reading(sent));

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
  expect(challengeAnswer(undefined, reading({ query: "validationToken=x" }))).toBeUndefined();
});
