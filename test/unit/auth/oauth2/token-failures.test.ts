import { expect, it } from "vitest";
import { describedKindOf, kindOf, oauth1KindOf, shownCode } from "../../../../src/auth/oauth2/token-failures.ts";

const rules = { deadGrantErrors: ["bad_refresh_token"], deadClientErrors: ["Bad_Client_Secret"] };

it.each([
  [400, "invalid_grant", "grant_dead"],
  [401, "invalid_grant", "grant_dead"],
  [400, "Invalid_Grant", "grant_dead"],
  [200, "invalid_grant", "grant_dead"],
  [200, "bad_refresh_token", "grant_dead"],
  [400, "BAD_REFRESH_TOKEN", "grant_dead"],
  [401, "invalid_client", "client_refused"],
  [400, "invalid_client", "client_refused"],
  [400, "unauthorized_client", "client_refused"],
  [200, "bad_client_secret", "client_refused"],
  [400, "invalid_scope", "misconfigured"],
  [400, "unsupported_grant_type", "misconfigured"],
  [400, "invalid_request", "misconfigured"],
  [400, "temporarily_unavailable", "passing"],
  [400, "server_error", "passing"],
  [429, undefined, "passing"],
  [429, "invalid_grant", "passing"],
  [500, undefined, "passing"],
  [500, "invalid_grant", "passing"],
  [503, undefined, "passing"],
  // Behind a gateway the server may have acted although its answer is lost; a gateway that gives a reason has not
  // forwarded.
  [502, undefined, "uncertain"],
  [504, undefined, "uncertain"],
  [502, "server_error", "passing"],
  [200, "internal_error", "passing"],
  [200, undefined, "passing"],
  [302, undefined, "misconfigured"],
  [307, "invalid_grant", "misconfigured"],
  [400, "what_is_this", "passing"],
  [403, undefined, "passing"],
  [404, undefined, "misconfigured"],
  [415, undefined, "misconfigured"],
  [400, "constructor", "passing"],
] as const)("takes %s with %s for %s", (status, code, kind) => {
  expect(kindOf({ status, code, grant: "refresh_token", rules })).toBe(kind);
});

it.each([
  ["authorization_pending", "pending", "passing"],
  ["slow_down", "slow_down", "passing"],
  ["expired_token", "grant_dead", "passing"],
  ["access_denied", "grant_dead", "passing"],
] as const)("O21: knows the meaning of %s in the device flow, and only there", (code, ofDevice, ofOthers) => {
  expect(kindOf({ status: 400, code, grant: "device_code", rules })).toBe(ofDevice);
  expect(kindOf({ status: 400, code, grant: "refresh_token", rules })).toBe(ofOthers);
});

it("lets a provider's description define more codes than the RFC", () => {
  const own = { deadGrantErrors: [], deadClientErrors: ["invalid_grant"] };
  expect(kindOf({ status: 400, code: "invalid_grant", grant: "refresh_token", rules: own })).toBe("client_refused");
});

it.each([
  [401, true, false, "client_refused"],
  [401, false, false, "grant_dead"],
  [404, true, true, "grant_dead"],
  [410, false, true, "grant_dead"],
  [404, false, false, "misconfigured"],
  [403, false, true, "passing"],
  [500, false, true, "passing"],
  [503, true, true, "passing"],
] as const)("judges a made-up exchange by its status %s", (status, isByIntegrationKey, isConnectionInUrl, kind) => {
  expect(describedKindOf({ status, code: undefined, isByIntegrationKey, isConnectionInUrl })).toBe(kind);
});

it.each([
  [401, "consumer_key_unknown", "client_refused"],
  [401, "signature_invalid", "client_refused"],
  [401, "token_rejected", "grant_dead"],
  [401, "verifier_invalid", "grant_dead"],
  [400, "parameter_absent", "misconfigured"],
  [401, "timestamp_refused", "passing"],
  [401, undefined, "passing"],
  [500, "token_rejected", "passing"],
  [404, undefined, "misconfigured"],
] as const)("judges OAuth 1 by %s and %s", (status, code, kind) => {
  expect(oauth1KindOf({ status, code })).toBe(kind);
});

it.each([
  ["invalid_grant", "invalid_grant"],
  ["AADSTS70008", "AADSTS70008"],
  ["oauth2.refresh-failed", "oauth2.refresh-failed"],
  ["a".repeat(64), "a".repeat(64)],
  ["a".repeat(65), undefined],
  ["", undefined],
  ["the token is not good", undefined],
  ["bad\r\nset-cookie: x", undefined],
  ["sécurité", undefined],
  ["42", undefined],
  ["rt-0123456789", undefined],
  ["unknown:rt-0123456789", undefined],
  ["rt-01234", undefined],
])("shows of the code %j only %j", (code, shown) => {
  expect(shownCode(code, ["rt-0123456789", ""])).toBe(shown);
});
