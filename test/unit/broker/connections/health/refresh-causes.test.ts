import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import {
  type DeadGrant,
  reasonOf,
  refreshCauses,
} from "../../../../../src/broker/connections/health/refresh-causes.ts";
import { OAuthApp_Publishing } from "../../../../../src/gen/latchkey/v1/integration_pb.ts";
import {
  OAuth2RulesSchema,
  RefreshTokenRules_Use,
  type RefreshTokenRulesSchema,
} from "../../../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../../../src/providers/catalogue.ts";

const day = 86_400_000;
const now = Date.parse("2026-03-01T00:00:00Z");
const google = loadCatalogue().get("google-calendar")?.auth;
if (google?.case !== "oauth2") throw new Error("google-calendar is OAuth 2");
const { TESTING, PRODUCTION, UNSPECIFIED } = OAuthApp_Publishing;

const rulesOf = (refreshTokens: MessageInitShape<typeof RefreshTokenRulesSchema>) =>
  create(OAuth2RulesSchema, { refreshTokens });
const days = (count: number) => ({ seconds: BigInt(count * 86_400) });

const grant = (more: Partial<DeadGrant>): DeadGrant => ({
  rules: google.value,
  publishing: PRODUCTION,
  scopes: ["https://www.googleapis.com/auth/calendar"],
  grantedAtMs: now - 30 * day,
  lastRenewedAtMs: now - day,
  nowMs: now,
  code: "invalid_grant",
  isAnswerLost: false,
  ...more,
});
const reason = (more: Partial<DeadGrant>) => reasonOf(refreshCauses(grant(more)));
const codes = (more: Partial<DeadGrant>) => refreshCauses(grant(more)).map(({ code }) => code);

const sevenDays = { grantedAtMs: now - 7 * day, lastRenewedAtMs: now - day / 24 };

describe("the reason that is given", () => {
  it.each([
    ["nothing points anywhere", {}, "invalid_grant"],
    ["in testing, seven days after it was granted", { publishing: TESTING, ...sevenDays }, "testing_grant_expired"],
    ["publishing unknown, seven days after", { publishing: UNSPECIFIED, ...sevenDays }, "testing_grant_expired"],
    ["in production, seven days after", { publishing: PRODUCTION, ...sevenDays }, "invalid_grant"],
    [
      "in testing, imported: nobody knows when it was granted",
      { publishing: TESTING, grantedAtMs: undefined },
      "testing_grant_expired",
    ],
    [
      "publishing and age unknown",
      { publishing: UNSPECIFIED, grantedAtMs: undefined, lastRenewedAtMs: undefined },
      "invalid_grant",
    ],
    ["in testing, after three days", { publishing: TESTING, grantedAtMs: now - 3 * day }, "invalid_grant"],
    ["in testing, so they say, and it was renewed for a month", { publishing: TESTING }, "invalid_grant"],
    [
      "in testing, and basic scopes alone",
      { publishing: TESTING, ...sevenDays, scopes: ["openid", "email"] },
      "invalid_grant",
    ],
    ["not used for half a year", { grantedAtMs: now - 400 * day, lastRenewedAtMs: now - 181 * day }, "idle_too_long"],
    ["the provider says so", { code: "token_revoked" }, "revoked"],
    ["100 grants of one account", { liveGrants: 100 }, "too_many_grants"],
    ["an administrator's policy", { code: "admin_policy_enforced" }, "restricted_by_administrator"],
    ["an administrator's session length", { code: "invalid_rapt" }, "session_expired"],
    [
      "an answer was lost",
      { isAnswerLost: true, rules: rulesOf({ use: RefreshTokenRules_Use.ROTATES }) },
      "rotation_response_lost",
    ],
    [
      "an answer was lost, of a token that stays",
      { isAnswerLost: true, rules: rulesOf({ use: RefreshTokenRules_Use.KEEPS }) },
      "invalid_grant",
    ],
    [
      "90 days from its issue",
      { grantedAtMs: now - 90 * day, rules: rulesOf({ lifetime: days(90) }) },
      "grant_expired",
    ],
    [
      "90 days from its issue, with a new one a day ago",
      { grantedAtMs: now - 90 * day, rules: rulesOf({ lifetime: days(90), use: RefreshTokenRules_Use.ROTATES }) },
      "invalid_grant",
    ],
  ] as const)("where %s", (_what, more, expected) => {
    expect(reason(more)).toBe(expected);
  });
});

it("names all that is not excluded, the likely ones first", () => {
  expect(
    codes({ publishing: TESTING, ...sevenDays, scopes: ["https://www.googleapis.com/auth/gmail.readonly"] }),
  ).toEqual([
    "testing_grant_expired",
    "revoked",
    "too_many_grants",
    "password_changed",
    "time_limit",
    "restricted_by_administrator",
    "session_expired",
  ]);
});

it("takes the address of a person for no mail", () => {
  const mail = (scope: string) => codes({ scopes: [scope] }).includes("password_changed");
  expect(["Mail.Read", "https://mail.google.com/", "gmail.modify"].map(mail)).toEqual([true, true, true]);
  expect(["email", "https://www.googleapis.com/auth/userinfo.email", "User.Email.Read"].map(mail)).toEqual([
    false,
    false,
    false,
  ]);
});

it("has a remedy", () => {
  const [cause] = refreshCauses(grant({ publishing: TESTING, ...sevenDays }));
  expect(cause?.text).toBe(
    "while the app is in testing, refresh tokens expire 7 days after they were issued: publish the app, then set publishing to production",
  );
});
