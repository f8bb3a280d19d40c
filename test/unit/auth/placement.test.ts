import type { MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { attachedNames } from "../../../src/auth/attachment.ts";
import type { ApiKeyRulesSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { attachFixed, providerOf, refusalOf, type Setting } from "./fixtures.ts";

type Placement = MessageInitShape<typeof ApiKeyRulesSchema>;
type Maker = (token: string, placement?: Placement) => Setting;

/** The kinds whose token or key is sent unchanged. */
const kinds: readonly (readonly [name: string, settingOf: Maker])[] = [
  [
    "oauth2",
    (accessToken, placement) => ({
      auth: { case: "oauth2", value: placement === undefined ? {} : { placement } },
      kind: { case: "oauth2", value: { accessToken } },
    }),
  ],
  [
    "oauth2Client",
    (token, placement) => ({
      auth: { case: "oauth2Client", value: placement === undefined ? {} : { placement } },
      kind: { case: "oauth2Client", value: { token } },
    }),
  ],
  [
    "apiKey",
    (apiKey, placement) => ({
      auth: { case: "apiKey", value: placement ?? {} },
      kind: { case: "apiKey", value: { apiKey } },
    }),
  ],
  [
    "app",
    (accessToken, placement) => ({
      auth: { case: "app", value: placement === undefined ? {} : { placement } },
      kind: { case: "app", value: { accessToken } },
    }),
  ],
  [
    "jwt",
    (token, placement) => ({
      auth: { case: "jwt", value: placement === undefined ? {} : { placement } },
      kind: { case: "jwt", value: { token } },
    }),
  ],
  [
    "twoStep",
    (token, placement) => ({
      auth: { case: "twoStep", value: placement === undefined ? {} : { placement } },
      kind: { case: "twoStep", value: { token } },
    }),
  ],
  [
    "signature",
    (token, placement) => ({
      auth: { case: "signature", value: placement === undefined ? {} : { placement } },
      kind: { case: "signature", value: { token } },
    }),
  ],
];

const secret = "s3cr3t-canary";

it.each(kinds)("sends %s as a bearer token by default", (_, settingOf) => {
  const bearer = { kind: "fixed", headers: [["authorization", `Bearer ${secret}`]], query: [] };
  expect(attachFixed(settingOf(secret))).toEqual(bearer);
  expect(attachFixed(settingOf(secret, {}))).toEqual(bearer);
});

it.each(kinds)("puts %s where the provider wants it", (_, settingOf) => {
  const placed = (placement: Placement) => attachFixed(settingOf(secret, placement));
  expect(placed({ header: "x-api-key" }).headers).toEqual([["x-api-key", secret]]);
  expect(placed({ header: "authorization", prefix: "Token token=" }).headers).toEqual([
    ["authorization", `Token token=${secret}`],
  ]);
  expect(placed({ prefix: "Klaviyo-API-Key " }).headers).toEqual([["authorization", `Klaviyo-API-Key ${secret}`]]);
  expect(placed({ query: "key" })).toEqual({ kind: "fixed", headers: [], query: [["key", secret]] });
});

it.each(kinds)("replaces the caller's own %s", (_, settingOf) => {
  const names = (placement?: Placement) => attachedNames(providerOf(settingOf("", placement).auth));
  expect(names()).toEqual({ headers: ["authorization"], query: [] });
  expect(names({ header: "x-api-key" })).toEqual({ headers: ["x-api-key"], query: [] });
  expect(names({ query: "key" })).toEqual({ headers: [], query: ["key"] });
});

it.each(kinds)("reports that %s is missing", (_, settingOf) => {
  expect(refusalOf(settingOf(""))).toMatch(/^the (installation's )?(API key|access token|token) is missing$/);
});

it.each(["\r\nx-other: 1", "\n", "\r", "\0", "\x7f", "☃", "\ud800"])(
  "keeps a token with %j out of a header, and out of the message",
  (bad) => {
    for (const [, settingOf] of kinds) {
      const message = refusalOf(settingOf(secret + bad));
      expect(message).toMatch(/ must not contain line breaks or other characters that are not allowed in a header$/);
      expect(message).not.toContain(secret);
    }
  },
);

it("takes every byte that a header can carry", () => {
  const [, settingOf] = kinds[0] ?? [];
  expect(settingOf === undefined ? [] : attachFixed(settingOf("\té!~")).headers).toEqual([
    ["authorization", "Bearer \té!~"],
  ]);
});
