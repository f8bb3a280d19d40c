import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { DurationSchema } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { readTokenAnswer } from "../../../../src/broker/tokens/token-answer.ts";
import { TokenAnswerSchema } from "../../../../src/gen/latchkey/v1/provider_pb.ts";

const sentAtMs = Date.UTC(2026, 0, 1);

interface Given {
  readonly status?: number;
  readonly type?: string;
  readonly at?: MessageInitShape<typeof TokenAnswerSchema>;
  readonly lifetimeS?: number;
  readonly isBound?: boolean;
}

function read(body: unknown, { status = 200, type = "application/json", at, lifetimeS, isBound = false }: Given = {}) {
  const bytes = body instanceof Uint8Array ? body : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  return readTokenAnswer(
    { status, contentType: type, body: bytes },
    {
      at: at === undefined ? undefined : create(TokenAnswerSchema, at),
      defaultLifetime: lifetimeS === undefined ? undefined : create(DurationSchema, { seconds: BigInt(lifetimeS) }),
      sentAtMs,
      isBound,
    },
  );
}

const tokensOf = (...given: Parameters<typeof read>) => {
  const reading = read(...given);
  if (reading.is !== "tokens") throw new Error(`is ${reading.is}`);
  return reading.tokens;
};
const good = { access_token: "at", token_type: "Bearer" };

it("reads the fields of RFC 6749", () => {
  const answer = { ...good, expires_in: 3600, refresh_token: "rt", scope: "a b", refresh_token_expires_in: 7200 };
  expect(tokensOf(answer)).toEqual({
    accessToken: "at",
    refreshToken: "rt",
    expiresAtMs: sentAtMs + 3_600_000,
    refreshExpiresAtMs: sentAtMs + 7_200_000,
    scopes: ["a", "b"],
    raw: answer,
    connectionConfig: {},
    metadata: {},
    idToken: undefined,
  });
});

it("reads described fields elsewhere, and stores the provider's own", () => {
  const at = {
    accessToken: "authed_user.access_token",
    refreshToken: "authed_user.refresh_token",
    expiresIn: "authed_user.life",
    expiresInUnit: "ms",
    scope: "authed_user.scopes",
    connectionConfig: { instance_url: "urls.0.instance\\.url", missing: "nowhere" },
    metadata: { teamId: "team.id", nothing: "team.nothing" },
  };
  const answer = {
    ok: true,
    authed_user: {
      access_token: "xoxp",
      token_type: "user",
      refresh_token: "xoxe",
      life: 5_000.9,
      scopes: ["a", "a", 7],
    },
    urls: [{ "instance.url": "acme.example" }],
    team: { id: "T1", nothing: null },
  };
  expect(tokensOf(answer, { at })).toMatchObject({
    accessToken: "xoxp",
    refreshToken: "xoxe",
    expiresAtMs: sentAtMs + 5_000,
    scopes: ["a"],
    connectionConfig: { instance_url: "acme.example" },
    metadata: { teamId: "T1" },
  });
  expect(Object.keys(tokensOf(answer, { at }).metadata)).toEqual(["teamId"]);
});

it("takes the moment when there is one, else the lifetime, else the provider's usual one", () => {
  const at = { expiresAt: "expires_at", expiresAtUnit: "iso" };
  const minute = sentAtMs + 60_000;
  expect(tokensOf({ ...good, expires_at: "2026-01-01T00:01:00Z", expires_in: 5 }, { at }).expiresAtMs).toBe(minute);
  expect(tokensOf({ ...good, expires_at: "soon", expires_in: 60 }, { at }).expiresAtMs).toBe(minute);
  expect(tokensOf({ ...good, expires_in: "abc" }, { lifetimeS: 60 }).expiresAtMs).toBe(minute);
  expect(tokensOf({ ...good, expires_in: 0 }, { lifetimeS: 60 }).expiresAtMs).toBe(sentAtMs);
  expect(tokensOf(good).expiresAtMs).toBeUndefined();
});

it.each([
  ["a form", "application/x-www-form-urlencoded; charset=utf-8"],
  ["a form that calls itself text", "text/plain"],
  ["a form that calls itself HTML", "text/html"],
])("O09: reads %s", (_, type) => {
  const body = "access_token=a%2Bt&token_type=bearer&expires_in=60&scope=repo%2Cgist";
  const expected = { accessToken: "a+t", expiresAtMs: sentAtMs + 60_000, scopes: ["repo", "gist"] };
  expect(tokensOf(body, { type })).toMatchObject(expected);
});

it("O09: reads JSON with any media type, and with a byte order mark", () => {
  for (const type of ["text/html", "text/plain", "", "application/vnd.x+json"]) {
    expect(tokensOf(`\uFEFF ${JSON.stringify(good)}`, { type }).accessToken).toBe("at");
  }
});

const deep = { error: { type: "OAuthException", code: 190, message: "…" } };
it.each([
  ["a code", { error: "invalid_grant" }, 400, "invalid_grant"],
  ["a code with a 200", { error: "bad_refresh_token" }, 200, "bad_refresh_token"],
  ["ok false", { ok: false, error: "token_revoked" }, 200, "token_revoked"],
  ["ok false without a word", { ok: false }, 200, undefined],
  ["ok false beside a token", { ok: false, ...good }, 200, undefined],
  ["a code beside a token", { error: "invalid_grant", ...good }, 200, "invalid_grant"],
  ["an object", deep, 400, "OAuthException"],
  ["an object with a 200", deep, 200, "OAuthException"],
  ["no JSON", "<html>", 500, undefined],
  ["nothing", "", 429, undefined],
  ["a token with an error's status", good, 401, undefined],
])("O09: takes %s for a refusal", (_, body, status, code) => {
  expect(read(body, { status })).toEqual({ is: "refusal", code });
});

it("O09: finds the error at the provider's field, form or not", () => {
  const at = { error: "status.failure" };
  expect(read({ status: { failure: "gone" }, ...good }, { at })).toEqual({ is: "refusal", code: "gone" });
  expect(read({ success: false, ...good }, { at: { error: "success" } })).toEqual({ is: "refusal", code: undefined });
  // A number is a code as well, unless it says that all is well.
  const expired = { error: { message: "Session has expired.", code: 190 } };
  expect(read(expired, { status: 400, at: { error: "error.code" } })).toEqual({ is: "refusal", code: "190" });
  expect(read({ code: 40105, data: {} }, { at: { error: "code" } })).toEqual({ is: "refusal", code: "40105" });
  expect(read({ code: 0, ...good }, { at: { error: "code" } })).toMatchObject({ is: "tokens" });
  const type = "application/x-www-form-urlencoded";
  expect(read("error=bad_verification_code&error_uri=x", { type })).toEqual({
    is: "refusal",
    code: "bad_verification_code",
  });
});

it.each([
  ["nothing", "", "garbled", "empty"],
  ["half of one", '{"access_token":"a', "garbled", "unparsable"],
  ["a list", "[]", "garbled", "unparsable"],
  ["a word", '"ok"', "garbled", "unparsable"],
  ["no UTF-8", Buffer.from([0x7b, 0x22, 0xc3, 0x28, 0x22, 0x7d]), "garbled", "invalid_utf8"],
  ["a page", "<!doctype html><title>Maintenance</title>", "unusable", "html"],
  ["no token", { token_type: "bearer" }, "unusable", "no_token"],
  ["an inherited field", {}, "unusable", "no_token"],
] as const)("O09: takes %s for no answer", (_, body, is, code) => {
  expect(
    read(body, body === undefined ? {} : { at: { accessToken: _ === "an inherited field" ? "constructor.name" : "" } }),
  ).toEqual({
    is,
    code,
  });
});

const unsafe: readonly (readonly [string, unknown])[] = [
  ["CR and LF", "a\r\nx-evil: 1"],
  ["a blank", "a b"],
  ["blanks", "   "],
  ["nothing", ""],
  ["64 KiB", "a".repeat(65_536)],
  ["16 KiB and one", "a".repeat(16_385)],
  ["non-ASCII", "tökën"],
  ["a NUL", "a\0b"],
  ["a tab", "a\tb"],
  ["DEL", "a\x7f"],
  ["a number", 42],
  ["an object", { a: 1 }],
  ["a list", ["a"]],
];
it.each(unsafe)("O10: refuses an access token that is %s", (_, token) => {
  expect(read({ ...good, access_token: token })).toEqual({ is: "unusable", code: "unsafe_token" });
});
it.each(unsafe.filter(([what]) => what !== "nothing"))("O10: refuses a refresh token that is %s", (_, token) => {
  expect(read({ ...good, refresh_token: token })).toEqual({ is: "unusable", code: "unsafe_refresh_token" });
});
it("O10: accepts the largest safe number, and treats an empty refresh token as none", () => {
  expect(tokensOf({ ...good, access_token: "~".repeat(16_384) }).accessToken).toHaveLength(16_384);
  expect(tokensOf({ ...good, refresh_token: "" }).refreshToken).toBeUndefined();
  expect(tokensOf({ ...good, refresh_token: null }).refreshToken).toBeUndefined();
});

it.each([
  ["Bearer", true],
  ["bearer", true],
  ["BEARER", true],
  [undefined, true],
  [null, true],
  ["bot", true],
  ["MAC", false],
  ["mac", false],
  ["DPoP", false],
  ["N_A", false],
])("O18: reports whether the token type %s can be used: %s", (token_type, can) => {
  const reading = read({ ...good, token_type });
  expect(reading).toMatchObject(can ? { is: "tokens" } : { is: "unusable", code: "token_type" });
});

it.each([
  ["DPoP", true],
  ["dpop", true],
  [undefined, true],
  ["Bearer", false],
  ["MAC", false],
])("O18: of a provider that binds tokens to a key, %s can be used: %s", (token_type, can) => {
  const reading = read({ ...good, token_type }, { isBound: true });
  expect(reading).toMatchObject(can ? { is: "tokens" } : { is: "unusable", code: "token_type" });
});

it("O18: looks for the type where the token is", () => {
  const at = { accessToken: "a\\.b.access_token" };
  expect(read({ "a.b": { access_token: "at", token_type: "mac" }, token_type: "bearer" }, { at }).is).toBe("unusable");
  expect(read({ "a.b": { access_token: "at" }, token_type: "mac" }, { at }).is).toBe("unusable");
  expect(read({ "a.b": { access_token: "at", token_type: "user" }, token_type: "mac" }, { at }).is).toBe("tokens");
});
