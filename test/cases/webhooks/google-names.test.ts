import { expect, test } from "vitest";
import { emailHash } from "../../../src/core/notifications/email-hash.ts";
import { startReceiving } from "../../support/sidecar/receiving.ts";

const uri = "https://www.googleapis.com/calendar/v3/calendars/ada%40example.com/events?alt=json";
const changes = "https://www.googleapis.com/drive/v3/changes";

/** The data of one connection of a provider's integration, and of another that a later rule would find. */
type Row = readonly [provider: string, what: string, held: object, resource: string, other: object];

const rows: readonly Row[] = [
  ...(["google-calendar", "google"] as const).flatMap((provider): Row[] => [
    [
      provider,
      "metadata.googleCalendarWatchResourceUris",
      { metadata: { googleCalendarWatchResourceUris: ["https://elsewhere.example/", uri] } },
      uri,
      { connection_config: { emailAddressHash: emailHash("ada@example.com") } },
    ],
    [
      provider,
      "metadata.calendarWatchResourceUris before googleCalendarWatchResourceUris",
      { metadata: { calendarWatchResourceUris: [uri] } },
      uri,
      { metadata: { googleCalendarWatchResourceUris: [uri] } },
    ],
    [
      provider,
      "metadata.googleCalendarChannelId",
      { metadata: { googleCalendarChannelId: "channel-1" } },
      uri,
      { metadata: { googleCalendarResourceId: "resource-1" } },
    ],
    [provider, "metadata.googleCalendarResourceId", { metadata: { googleCalendarResourceId: "resource-1" } }, uri, {}],
    [
      provider,
      "the account's address before googleCalendarChannelId",
      { metadata: { email: "ada@example.com" } },
      uri,
      { metadata: { googleCalendarChannelId: "channel-1" } },
    ],
  ]),
  ...(["google-drive", "google"] as const).flatMap((provider): Row[] => [
    [
      provider,
      "metadata.googleDriveWatchResourceIds",
      { metadata: { googleDriveWatchResourceIds: ["other", "resource-1"] } },
      changes,
      { metadata: { googleDriveWatchResourceId: "resource-1" } },
    ],
    [
      provider,
      "metadata.googleDriveWatchResourceId",
      { metadata: { googleDriveWatchResourceId: "resource-1" } },
      changes,
      {},
    ],
    [
      provider,
      "connection_config.googleDriveWatchResourceId",
      { connection_config: { googleDriveWatchResourceId: "resource-1" } },
      changes,
      {},
    ],
    [
      provider,
      "metadata.googleCalendarWatchResourceUris of files",
      { metadata: { googleCalendarWatchResourceUris: [changes] } },
      changes,
      {},
    ],
    [
      provider,
      "metadata.driveResourceId before googleDriveWatchResourceIds",
      { metadata: { driveResourceId: "resource-1" } },
      changes,
      { metadata: { googleDriveWatchResourceIds: ["resource-1"] } },
    ],
  ]),
];

test.each(rows)("W10 a notification of %s finds %s", async (provider, _, held, resource, other) => {
  const { integrate, connect, notify, application } = await startReceiving();
  await integrate(provider, { credentials: { type: "OAUTH2", client_id: "client", client_secret: "secret" } });
  await connect("held", { provider_config_key: provider, ...held });
  await connect("other", { provider_config_key: provider, ...other });
  const { status } = await notify({
    integration: provider,
    headers: {
      "x-goog-channel-id": "channel-1",
      "x-goog-resource-id": "resource-1",
      "x-goog-resource-uri": resource,
      "x-goog-resource-state": "exists",
      "x-goog-message-number": "7",
    },
  });
  expect(status).toBe(200);
  const seen = await application.got(1);
  expect(seen.map(({ body }) => JSON.parse(body).connectionId)).toEqual(["held"]);
});
