/** The sample data of the README's pictures: a company with customers, of whom a few need attention. */
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { emailHash } from "../../../src/core/notifications/email-hash.ts";
import { describeProviders } from "../../../src/dev/sandbox/providers.ts";
import type { Sandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectionImportSchema, ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { readProvider } from "../../../src/providers/read.ts";
import type { Filled } from "./everything.ts";

export const minutesOfTraffic = 180;

const environment = "dev";
const integrations = [
  { key: "calendar", provider: "sandbox-calendar", displayName: "Calendar", perMinute: 9 },
  { key: "files", provider: "sandbox-files", displayName: "File storage", perMinute: 5 },
  { key: "crm", provider: "sandbox-unified", displayName: "CRM", perMinute: 3 },
  { key: "billing", provider: "sandbox-api-key", displayName: "Billing", perMinute: 2 },
] as const;
const people = ["ada", "grace", "alan", "edsger", "barbara", "donald", "radia", "tim", "margaret", "john"] as const;
const paths: Readonly<Record<string, string>> = {
  calendar: "/proxy/v3/users/me/calendarList",
  files: "/proxy/drive/v3/files?pageSize=3",
  crm: "/proxy/gmail/v1/users/me/messages",
  billing: "/proxy/api/me",
};

/** Fills a sidecar, and then sends a minute of traffic before each call of `passMinute`. */
export async function fillWithSamples(all: Filled, sandbox: Sandbox, passMinute: () => void): Promise<void> {
  const [provider, integration, channel] = [
    all.client(ProviderService),
    all.client(IntegrationService),
    all.client(ChannelService),
  ];
  for (const one of describeProviders(sandbox.origin)) await provider.createProvider({ provider: readProvider(one) });
  for (const { key, provider: name, displayName } of integrations) {
    await integration.createIntegration({
      integration: {
        ...{ environment, key, provider: name, displayName },
        ...(key !== "billing" && { oauth: { clientId: "sandbox" }, secrets: { clientSecret: "sandbox-secret" } }),
      },
    });
  }
  await importPeople(all.client(ConnectionService), sandbox);
  for (const id of ["ada", "grace"]) {
    await channel.createChannel({ connection: { environment, integration: "calendar", id } });
  }
  for (let minute = 0; minute < minutesOfTraffic; minute += 1) {
    if (failingMinutes.has(minute)) sandbox.behave({ answers: { mail: [outage] } });
    await sendMinute(all, minute);
    passMinute();
  }
  // The minute that the pictures are taken in.
  await sendMinute(all, minutesOfTraffic);
  await breakSome(all.client(ConnectionService), sandbox);
}

/** The provider of the CRM fails for a while, and later once more. */
const failingMinutes: ReadonlySet<number> = new Set([131, 132, 133, 134, 158]);
const outage = { kind: "error" as const, status: 503, error: "unavailable", description: "", headers: {}, times: 2 };

type Connections = ReturnType<typeof clientOf>;
const clientOf = (all: Filled) => all.client(ConnectionService);

async function importPeople(connections: Connections, sandbox: Sandbox): Promise<void> {
  const users = new Set(["ada@example.com", "bob@example.com"]);
  for (const [i, id] of people.entries()) {
    for (const { key } of integrations) {
      const user = [...users][i % users.size] ?? "";
      const token = sandbox.grant({ user });
      const kind =
        key === "billing"
          ? { case: "apiKey" as const, value: { apiKey: "sandbox-api-key" } }
          : {
              case: "oauth2" as const,
              value: {
                accessToken: token.access_token,
                refreshToken: token.refresh_token,
                expiresAt: timestampFromMs(Date.now() + 24 * 3_600_000),
              },
            };
      await connections.importConnection({
        connection: create(ConnectionImportSchema, {
          ...{ environment, integration: key, id, credentials: { kind } },
          endUser: { id, email: `${id}@example.com`, organization: { id: "acme", displayName: "Acme" } },
          ...(key === "calendar" && { connectionConfig: { emailAddressHash: emailHash(user) } }),
        }),
      });
    }
  }
}

async function sendMinute({ rest }: Filled, minute: number): Promise<void> {
  const wave = 1 + 0.5 * Math.sin(minute / 23) + 0.2 * Math.sin(minute / 5);
  const calls = integrations.flatMap(({ key, perMinute }) =>
    Array.from({ length: Math.max(1, Math.round(perMinute * wave)) }, (_, i) => {
      const isMissing = (minute * 7 + i) % 61 === 0;
      const id = people[(minute + i) % people.length] ?? "";
      const headers = { "provider-config-key": key, "connection-id": id };
      return rest("GET", isMissing ? "/proxy/v3/missing" : (paths[key] ?? ""), { headers });
    }),
  );
  // After a jump of the clock, the sidecar closes connections as idle that are just being used.
  await Promise.allSettled(calls);
}

/** The users took their grants back, or the provider refuses the refresh. */
async function breakSome(connections: Connections, sandbox: Sandbox): Promise<void> {
  const answer = {
    kind: "error" as const,
    status: 400,
    error: "invalid_grant",
    description: "",
    headers: {},
    times: 3,
  };
  sandbox.behave({ answers: { token: [answer] } });
  for (const [integration, id] of [
    ["files", "alan"],
    ["crm", "radia"],
    ["calendar", "tim"],
  ] as const) {
    await connections.refreshConnection({ ref: { environment, integration, id } }).catch(() => {});
  }
}
