import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { integrationWarnings, refreshTokensUsedUp, webhooksUnproven } from "../../../src/core/integration-warnings.ts";
import { IntegrationSchema, OAuthApp_Publishing } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../src/providers/catalogue.ts";

const catalogue = loadCatalogue();
const { UNSPECIFIED, TESTING, PRODUCTION } = OAuthApp_Publishing;

const warningsFor = (provider: string, oauth?: MessageInitShape<typeof IntegrationSchema>["oauth"]) =>
  integrationWarnings(create(IntegrationSchema, oauth === undefined ? {} : { oauth }), catalogue.get(provider));
const codesFor = (...asked: Parameters<typeof warningsFor>) => warningsFor(...asked).map(({ code }) => code);

const drive = "https://www.googleapis.com/auth/drive";
const file = "https://www.googleapis.com/auth/drive.file";
const calendar = "https://www.googleapis.com/auth/calendar";
const email = "https://www.googleapis.com/auth/userinfo.email";

it("warns that refresh tokens of an app in testing expire in seven days", () => {
  const [warning] = warningsFor("google-drive", { publishing: TESTING, scopes: ["openid", file] });
  expect(warning).toMatchObject({ code: "short_lived_refresh_tokens", scopes: [file] });
  expect(warning?.message).toMatch(/Google Drive die 7 days after/);
  // An unknown scope is not exempt.
  expect(codesFor("google-drive", { publishing: TESTING, scopes: ["https://www.googleapis.com/auth/new"] })).toEqual([
    "short_lived_refresh_tokens",
  ]);
});

it("has no warning for basic scopes only", () => {
  for (const publishing of [UNSPECIFIED, TESTING, PRODUCTION]) {
    expect(codesFor("google", { publishing, scopes: ["openid", "profile", email] })).toEqual([]);
  }
  expect(codesFor("google")).toEqual([]);
  expect(codesFor("calendar")).toEqual([]);
});

it("names scopes that need verification before production, and those that need an assessment", () => {
  const scopes = ["openid", calendar, drive, file];
  const warnings = warningsFor("google", { publishing: TESTING, scopes });
  expect(warnings.map(({ code }) => code)).toEqual(["short_lived_refresh_tokens", "verification_needed"]);
  expect(warnings[1]?.scopes).toEqual([calendar, drive]);
  expect(warnings[1]?.message).toMatch(
    /verification for \S+calendar, \S+drive and, for \S+drive, a security assessment/,
  );
  const [, sensitive] = warningsFor("google-calendar", { publishing: TESTING, scopes: [calendar] });
  expect(sensitive?.message).not.toMatch(/assessment/);
});

it("has no warning for an app in production", () => {
  expect(codesFor("google", { publishing: PRODUCTION, scopes: [drive] })).toEqual([]);
});

it("asks which it is, where that matters", () => {
  const [warning, ...others] = warningsFor("unified", { scopes: ["https://scopes.example/drive"] });
  expect(others).toEqual([]);
  expect(warning).toMatchObject({ code: "publishing_unknown", scopes: ["https://scopes.example/drive"] });
  expect(warning?.message).toMatch(/7 days.*security assessment/);
});

it("names a missing scope that refreshes require, published or not", () => {
  expect(codesFor("microsoft", { publishing: PRODUCTION, scopes: ["User.Read"] })).toEqual(["no_refresh_tokens"]);
  expect(codesFor("microsoft", { scopes: ["User.Read", "offline_access"] })).toEqual([]);
  expect(codesFor("salesforce", { scopes: ["api", "offline_access"] })).toEqual([]);
  // The provider's own scopes, if the integration names none.
  expect(codesFor("jira", {})).toEqual([]);
});

it("has no warning for other kinds of credentials, or an unknown provider", () => {
  expect(codesFor("stripe", { publishing: TESTING, scopes: [drive] })).toEqual([]);
  expect(codesFor("nobody", { publishing: TESTING, scopes: [drive] })).toEqual([]);
});

it("warns when more than nine tenths of an account's refresh tokens are used up", () => {
  const google = catalogue.get("google") ?? create(ProviderSchema);
  for (const live of [0, 90]) expect(refreshTokensUsedUp(google, live)).toBeUndefined();
  const warning = refreshTokensUsedUp(google, 91);
  expect(warning?.code).toBe("refresh_tokens_used_up");
  expect(warning?.message).toMatch(/^91 of the 100 refresh tokens that one account of Google Workspace/);
  // Without such a limit nothing is counted.
  expect(refreshTokensUsedUp(catalogue.get("slack") ?? google, 1_000)).toBeUndefined();
});

it("warns of unverified webhooks, if a secret could verify them", () => {
  const none = { webhookSecret: "", clientSecret: "" };
  const app = { ...none, clientSecret: "app" };
  const codeOf = (name: string, secrets: typeof none) => webhooksUnproven(catalogue.get(name), secrets)?.code;
  expect(codeOf("github", app)).toBe("webhooks_unproven");
  expect(codeOf("github", { ...none, webhookSecret: "s" })).toBeUndefined();
  expect(codeOf("hubspot", none)).toBe("webhooks_unproven");
  expect(codeOf("hubspot", app)).toBeUndefined();
  // Each channel has its own token; the other providers send nothing that could be verified.
  for (const name of ["calendar", "google-drive", "salesforce", "nobody"]) expect(codeOf(name, none)).toBeUndefined();
});
