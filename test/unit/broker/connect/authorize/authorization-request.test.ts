import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import {
  authorizationParameters,
  withQuery,
} from "../../../../../src/broker/connect/authorize/authorization-request.ts";
import { challengeOf } from "../../../../../src/broker/tokens/pkce.ts";
import { missingScopes, wantedScopes } from "../../../../../src/core/granted-scopes.ts";
import { returnTarget } from "../../../../../src/core/return-target.ts";
import { OAuth2RulesSchema } from "../../../../../src/gen/latchkey/v1/provider_pb.ts";

const request = {
  clientId: "c",
  redirectUri: "https://x.example/oauth/callback",
  state: "s",
  challenge: "h",
  nonce: undefined,
  scopes: ["a", "b"],
  furtherScopes: {},
  isFurther: false,
  params: {},
};
const parameters = (rules: MessageInitShape<typeof OAuth2RulesSchema>, more: Partial<typeof request> = {}) =>
  authorizationParameters(create(OAuth2RulesSchema, rules), { ...request, ...more });

it("hashes a verifier as RFC 7636, appendix B, does", () => {
  expect(challengeOf("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk")).toBe(
    "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM",
  );
});

it("has the parameters of RFC 6749 and RFC 7636", () => {
  expect(parameters({})).toEqual({
    response_type: "code",
    client_id: "c",
    redirect_uri: "https://x.example/oauth/callback",
    state: "s",
    scope: "a b",
    code_challenge: "h",
    code_challenge_method: "S256",
  });
});

it("differs from them as the provider's description defines", () => {
  const slack = parameters(
    { scopeSeparator: ",", scopeParameter: "user_scope", noPkce: true },
    { challenge: undefined as never },
  );
  expect(slack).toMatchObject({ user_scope: "a,b" });
  expect(slack).not.toHaveProperty("scope");
  expect(slack).not.toHaveProperty("code_challenge_method");
  const google = { authorizationParams: { prompt: "consent" }, incrementalParams: { include_granted_scopes: "true" } };
  expect(parameters(google)).not.toHaveProperty("include_granted_scopes");
  expect(parameters(google, { isFurther: true })).toMatchObject({ prompt: "consent", include_granted_scopes: "true" });
});

it("lets no other source set latchkey's own parameters", () => {
  const params = { redirect_uri: "https://evil.example", state: "x", client_id: "x", prompt: "none", request: "x" };
  const made = parameters({ authorizationParams: { prompt: "consent", nonce: "fixed" } }, { params });
  expect(made).toMatchObject({ redirect_uri: request.redirectUri, state: "s", client_id: "c", prompt: "none" });
  expect(made).not.toHaveProperty("nonce");
  expect(made).not.toHaveProperty("request");
});

it("keeps the query of an address, and encodes spaces without a plus", () => {
  expect(withQuery("https://x.example/a?tenant=t&scope=old", { scope: "a b" })).toBe(
    "https://x.example/a?tenant=t&scope=a%20b",
  );
});

it("requests the configured, additional and earlier scopes, each once", () => {
  const none = { configured: [], defaults: ["d"], further: [], granted: [] };
  expect(wantedScopes(none)).toEqual(["d"]);
  expect(wantedScopes({ ...none, configured: ["a"], further: ["b", "a"], granted: ["c", "b"] })).toEqual([
    "a",
    "b",
    "c",
  ]);
});

it("knows Google's long names of OpenID Connect's short ones, and misses no refresh token", () => {
  const base = "https://www.googleapis.com/auth/userinfo.";
  expect(
    missingScopes(
      ["openid", "email", "profile", "offline_access", "drive"],
      ["openid", `${base}email`, `${base}profile`],
    ),
  ).toEqual(["drive"]);
});

it.each([
  "https://app.example",
  "https://app.example/",
  "https://app.example/a?b=c#d",
  "https://app.example?x",
  "http://localhost:8080/x",
])("O08 allows a redirect back to %s", (target) =>
  expect(returnTarget(target, ["https://app.example", "http://localhost:8080"])).toBe(target),
);
it.each([
  "https://app.example.evil",
  "https://app.example:443/",
  "https://app.example#x@evil",
  "https://APP.example/",
  "http://localhost:8081/",
  "https://u@app.example/",
  "https://app.example\\.evil/",
  "https://app.example /",
])("O08 and to no %s", (target) =>
  expect(returnTarget(target, ["https://app.example", "http://localhost:8080"])).toBeUndefined(),
);
