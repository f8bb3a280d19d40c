import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { expect, it } from "vitest";
import { healthOf, soonMs } from "../../../../../src/broker/connections/health/connection-health.ts";
import { RefreshRecordSchema } from "../../../../../src/gen/latchkey/stored/v1/stored_pb.ts";
import { Connection_State } from "../../../../../src/gen/latchkey/v1/connection_pb.ts";
import { CredentialsSchema } from "../../../../../src/gen/latchkey/v1/credentials_pb.ts";
import { IntegrationSchema, OAuthApp_Publishing } from "../../../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderSchema } from "../../../../../src/gen/latchkey/v1/provider_pb.ts";
import { loadCatalogue } from "../../../../../src/providers/catalogue.ts";

const { ACTIVE, EXPIRING, REFRESH_FAILING, REAUTHORIZATION_REQUIRED } = Connection_State;
const now = Date.parse("2026-03-01T00:00:00Z");
const hour = 3_600_000;
const day = 24 * hour;
type Kind = NonNullable<MessageInitShape<typeof CredentialsSchema>["kind"]>;

const google = loadCatalogue().get("google-calendar");
if (google === undefined) throw new Error("google-calendar is in the catalogue");
const exchanging = create(ProviderSchema, { auth: { case: "oauth2", value: { renewal: { accessToken: true } } } });

const at = (ms: number) => timestampFromMs(now + ms);
const access = (expiresInMs?: number): Kind => ({
  case: "oauth2",
  value: { accessToken: "at", ...(expiresInMs === undefined ? {} : { expiresAt: at(expiresInMs) }) },
});
const renewable: Kind = { case: "oauth2", value: { accessToken: "at", refreshToken: "rt", expiresAt: at(-1) } };

interface Case {
  readonly what: string;
  readonly kind: Kind;
  readonly record?: MessageInitShape<typeof RefreshRecordSchema>;
  readonly publishing?: OAuthApp_Publishing;
  readonly provider?: typeof google;
  readonly state: Connection_State;
  readonly reason?: string;
  /** Milliseconds from now. */
  readonly lookIn?: number;
}

const testing = OAuthApp_Publishing.TESTING;
const cases: readonly Case[] = [
  { what: "a key", kind: { case: "apiKey", value: { apiKey: "k" } }, state: ACTIVE },
  { what: "a token of which nobody knows when it runs out", kind: access(), state: ACTIVE },
  { what: "a token that runs out in a week, for good", kind: access(7 * day), state: ACTIVE, lookIn: 7 * day - soonMs },
  {
    what: "one that runs out in an hour",
    kind: access(hour),
    state: EXPIRING,
    reason: "credentials_expire",
    lookIn: hour,
  },
  { what: "one that runs out in a day", kind: access(day), state: EXPIRING, reason: "credentials_expire", lookIn: day },
  { what: "one that ran out", kind: access(0), state: REAUTHORIZATION_REQUIRED, reason: "credentials_expired" },
  { what: "one that ran out and can be renewed", kind: renewable, state: ACTIVE },
  { what: "one that lives and can be exchanged", kind: access(hour), provider: exchanging, state: ACTIVE },
  {
    what: "one that was to be exchanged and ran out",
    kind: access(-1),
    provider: exchanging,
    state: REAUTHORIZATION_REQUIRED,
    reason: "credentials_expired",
  },
  { what: "an app, which mints its own", kind: { case: "app", value: { expiresAt: at(-1) } }, state: ACTIVE },
  {
    what: "an exchange without anything to exchange",
    kind: { case: "twoStep", value: { token: "t", expiresAt: at(-1) } },
    state: REAUTHORIZATION_REQUIRED,
    reason: "credentials_expired",
  },
  {
    what: "temporary keys",
    kind: { case: "awsSigv4", value: { expiresAt: at(hour) } },
    state: EXPIRING,
    reason: "credentials_expire",
    lookIn: hour,
  },
  {
    what: "a renewal that failed",
    kind: renewable,
    record: { failures: 1, lastFailure: "passing", firstFailedAt: at(-hour) },
    state: REFRESH_FAILING,
    reason: "provider_unavailable",
  },
  {
    what: "a client that is not taken",
    kind: renewable,
    record: { failures: 1, lastFailure: "client_refused" },
    state: REFRESH_FAILING,
    reason: "client_refused",
  },
  {
    what: "days of failures",
    kind: renewable,
    record: { failures: 9, lastFailure: "passing", firstFailedAt: at(-3 * day) },
    state: REFRESH_FAILING,
    reason: "failing_for_days",
  },
  {
    what: "a word of a later version",
    kind: renewable,
    record: { failures: 1, lastFailure: "odd" },
    state: REFRESH_FAILING,
    reason: "provider_unavailable",
  },
  {
    what: "a dead grant",
    kind: renewable,
    record: { failures: 1, deadReason: "revoked" },
    state: REAUTHORIZATION_REQUIRED,
    reason: "revoked",
  },
  {
    what: "a grant in testing",
    kind: renewable,
    record: { grantedAt: at(-day) },
    publishing: testing,
    state: ACTIVE,
    lookIn: 5 * day,
  },
  {
    what: "a grant in testing on its last day",
    kind: renewable,
    record: { grantedAt: at(-6.5 * day) },
    publishing: testing,
    state: EXPIRING,
    reason: "grant_expires",
    lookIn: day / 2,
  },
  {
    what: "a grant in testing whose time is over, as far as we can tell",
    kind: renewable,
    record: { grantedAt: at(-8 * day) },
    publishing: testing,
    state: EXPIRING,
    reason: "grant_expires",
  },
  {
    what: "the same in production",
    kind: renewable,
    record: { grantedAt: at(-8 * day) },
    publishing: OAuthApp_Publishing.PRODUCTION,
    state: ACTIVE,
  },
];

it.each(cases)("$what", ({ kind, record, publishing, provider = google, state, reason = "", lookIn }) => {
  const health = healthOf({
    credentials: create(CredentialsSchema, { kind }),
    integration: create(IntegrationSchema, {
      oauth: {
        scopes: ["https://www.googleapis.com/auth/calendar"],
        publishing: publishing ?? OAuthApp_Publishing.UNSPECIFIED,
      },
    }),
    provider,
    record: record === undefined ? undefined : create(RefreshRecordSchema, record),
    nowMs: now,
  });
  expect(health).toEqual({ state, reason, lookAtMs: lookIn === undefined ? undefined : now + lookIn });
});
