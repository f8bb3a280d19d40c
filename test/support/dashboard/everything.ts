/** One of everything that the dashboard shows, with a text in every field that others can set. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { DescService } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import { emailHash } from "../../../src/core/notifications/email-hash.ts";
import { describeProviders } from "../../../src/dev/sandbox/providers.ts";
import type { Sandbox } from "../../../src/dev/sandbox/sandbox.ts";
import { AccessSessionService } from "../../../src/gen/latchkey/v1/access_session_pb.ts";
import { ChannelService } from "../../../src/gen/latchkey/v1/channel_pb.ts";
import { ConnectSessionService } from "../../../src/gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionService } from "../../../src/gen/latchkey/v1/connection_pb.ts";
import { EnvironmentService } from "../../../src/gen/latchkey/v1/environment_pb.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { PolicyEffect, PolicyService } from "../../../src/gen/latchkey/v1/policy_pb.ts";
import { ProviderService } from "../../../src/gen/latchkey/v1/provider_pb.ts";
import { SyncService } from "../../../src/gen/latchkey/v1/sync_pb.ts";
import { WebhookService } from "../../../src/gen/latchkey/v1/webhook_pb.ts";
import { readProvider } from "../../../src/providers/read.ts";
import { type RestAnswer, type RestOptions, secretKey } from "../sidecar/harness.ts";
import type { SamplePaths } from "./pages.ts";

/** The parts of a sidecar that are needed to fill it. */
export interface Filled {
  readonly data: string;
  client<S extends DescService>(service: S, key?: string): Client<S>;
  rest(method: string, path: string, options?: RestOptions): Promise<RestAnswer>;
}

const environment = "dev";
export const calendar = "sandbox-calendar";
const apiKeySecret = "key-of-bob-that-no-page-shows";
const app = { clientId: "sandbox", clientSecret: "sandbox-secret" };

/** A sync whose log lines, records and failure hold a text. */
export function writeScripts(folder: string, text: string): void {
  const file = join(folder, calendar, "syncs/events.ts");
  mkdirSync(dirname(file), { recursive: true });
  const value = JSON.stringify(text);
  writeFileSync(
    file,
    `import { createSync } from "nango";
import * as z from "zod";
export default createSync({
  description: ${value},
  version: "1.0.0",
  frequency: "1d",
  autoStart: false,
  syncType: "full",
  endpoints: [{ method: "GET", path: "/calendar/events" }],
  models: { Event: z.object({ id: z.string(), title: z.string() }) },
  exec: async (nango) => {
    await nango.log(${value}, { level: "warn" });
    await nango.batchSave([{ id: "1", title: ${value} }], "Event");
  },
});
`,
  );
}

export interface FilledSidecar {
  /** Addresses of the pages that show one thing. */
  readonly samples: SamplePaths;
  /** What no page may show. */
  readonly secrets: readonly string[];
}

/** Fills a sidecar. `textOf` gives the text of a field by its name. */
export async function fillWithEverything(
  { data, client, rest }: Filled,
  sandbox: Sandbox,
  textOf: (field: string) => string,
): Promise<FilledSidecar> {
  const connections = client(ConnectionService);
  const id = `ada ${textOf("id")}`.trim();
  const ref = { environment, integration: calendar, id };
  await setUp(client, sandbox, textOf);

  const { access_token: accessToken, refresh_token: refreshToken } = sandbox.grant({ user: "ada@example.com" });
  const text = textOf("value");
  await connections.importConnection({
    connection: {
      ...ref,
      credentials: { kind: { case: "oauth2", value: { accessToken, refreshToken } } },
      metadata: { [textOf("key")]: text, list: [text, { [text]: 1 }], emailAddress: "ada@example.com" },
      connectionConfig: { emailAddressHash: emailHash("ada@example.com"), note: text },
      tags: { tags: { team: text } },
      endUser: { id: text, email: text, displayName: textOf("person"), organization: { id: text, displayName: text } },
    },
  });
  await connections.importConnection({
    connection: {
      ...{ environment, integration: "keyed", id: "bob" },
      credentials: { kind: { case: "apiKey", value: { apiKey: apiKeySecret } } },
    },
  });
  await breakGrant(connections, sandbox, textOf);

  const { channel } = await client(ChannelService).createChannel({ connection: ref });
  await client(SyncService).triggerSync({ environment, integration: calendar, connectionId: id, names: ["events"] });
  const { session } = await client(ConnectSessionService).createConnectSession({
    environment,
    endUser: { id: text, email: text, displayName: text },
    tags: { team: text },
  });
  if (channel === undefined || session === undefined) throw new Error("something was not made");
  await callProvider(rest, id, text);
  await holdRequest({ client, rest }, text);
  const notification = await receive({ client, rest, data }, textOf);
  const { logs } = await client(LogService).listLogs({ environment, pageSize: 50 });
  const { runs } = await client(SyncService).listRuns({ environment, integration: calendar });
  const { forwards } = await client(WebhookService).listForwards({ environment });
  const idOf = (all: readonly { readonly id: string }[]) => all[0]?.id ?? "none";
  const samples = {
    "/access-sessions/:": `/access-sessions/${await openSession({ client, rest }, text)}`,
    "/integrations/:": `/integrations/${calendar}`,
    "/providers/:": `/providers/${calendar}`,
    "/catalog/:": "/catalog/slack",
    "/environments/:": `/environments/${environment}`,
    "/connections/:/:": `/connections/${calendar}/${encodeURIComponent(id)}`,
    "/webhooks/:": `/webhooks/${notification}`,
    "/webhooks/deliveries/:": `/webhooks/deliveries/${idOf(forwards)}`,
    "/logs/:": `/logs/${idOf(logs)}`,
    "/runs/:": `/runs/${idOf(runs)}`,
    "/scripts/:/:/:": `/scripts/${calendar}/sync/events`,
    "/records/:/:": `/records/${calendar}/${encodeURIComponent(id)}`,
  };
  return { samples, secrets: [accessToken, refreshToken, apiKeySecret] };
}

type ClientOf = Filled["client"];

/** Makes a request wait for a person. */
async function holdRequest({ client, rest }: Pick<Filled, "client" | "rest">, text: string): Promise<void> {
  await client(PolicyService).createPolicy({
    policy: {
      environment,
      id: "held",
      effect: PolicyEffect.HOLD,
      condition: 'request.path == "/held"',
      description: text,
      hold: { wait: { seconds: 0n, nanos: 0 } },
    },
  });
  const headers = { "provider-config-key": "keyed", "connection-id": "bob" };
  for (let tries = 0; tries < 600; tries += 1) {
    const { status } = await rest("POST", "/proxy/held", { headers, body: { text } });
    if (status === 202) return;
    await sleep(50);
  }
  throw new Error("the policy is not in force");
}

/** An access session with a text as its label, and a request of it. Returns its ID. */
async function openSession({ client, rest }: Pick<Filled, "client" | "rest">, text: string): Promise<string> {
  const { session, token } = await client(AccessSessionService, secretKey).createAccessSession({
    limits: { connections: [{ integration: "keyed", id: "bob" }] },
    label: text.slice(0, 100),
    budget: 10n,
  });
  await rest("GET", "/proxy/missing", { key: token });
  return session?.id ?? "none";
}

/** The environment, providers, integrations and a key. */
async function setUp(client: ClientOf, sandbox: Sandbox, textOf: (field: string) => string): Promise<void> {
  const [environments, integrations, providers] = [
    client(EnvironmentService),
    client(IntegrationService),
    client(ProviderService),
  ];
  await environments.updateEnvironment({
    environment: { name: environment, branding: { name: textOf("brand").slice(0, 64), accentColor: "#3355cc" } },
    updateMask: { paths: ["branding"] },
  });
  await environments.createKey({ environment, id: "reader", scopes: [3] });
  for (const description of describeProviders(sandbox.origin)) {
    const provider = readProvider(description);
    const name = textOf("provider");
    await providers.createProvider({ provider: name === "" ? provider : { ...provider, displayName: name } });
  }
  const oauth = { clientId: app.clientId, scopes: [] };
  const secrets = { clientSecret: app.clientSecret };
  for (const provider of [calendar, "sandbox-files"]) {
    const displayName = textOf("integration").slice(0, 200);
    await integrations.createIntegration({
      integration: { environment, key: provider, provider, displayName, oauth, secrets },
    });
  }
  await integrations.createIntegration({ integration: { environment, key: "keyed", provider: "example-api-key" } });
}

/** A connection whose refresh the provider refuses, with a text of the provider's. */
async function breakGrant(
  connections: Client<typeof ConnectionService>,
  sandbox: Sandbox,
  textOf: (field: string) => string,
): Promise<void> {
  const ref = { environment, integration: "sandbox-files", id: "broken" };
  const { access_token: accessToken, refresh_token: refreshToken } = sandbox.grant({ user: "bob@example.com" });
  await connections.importConnection({
    connection: { ...ref, credentials: { kind: { case: "oauth2", value: { accessToken, refreshToken } } } },
  });
  const answer = {
    kind: "error" as const,
    status: 400,
    error: "invalid_grant",
    description: textOf("answer"),
    headers: {},
    times: 1,
  };
  sandbox.behave({ answers: { token: [answer] } });
  await connections.refreshConnection({ ref }).catch(() => {});
}

/** A proxied request that succeeds, and one that the provider refuses. */
async function callProvider(rest: Filled["rest"], id: string, text: string): Promise<void> {
  const headers = { "provider-config-key": calendar, "connection-id": id };
  await rest("GET", "/proxy/v3/users/me/calendarList", { headers });
  await rest("GET", `/proxy/missing/${encodeURIComponent(text)}?q=${encodeURIComponent(text)}`, {
    headers: { ...headers, "x-note": text },
  });
}

/** A webhook that is matched and one that is not. Returns the ID of the first. */
async function receive({ client, rest, data }: Filled, textOf: (field: string) => string): Promise<string> {
  const { body } = await rest("GET", `/integrations/${calendar}?include=webhook`);
  const { pathname } = new URL(body.data.webhook_url);
  for (const person of ["ada@example.com", "nobody@example.com"]) {
    const response = await fetch(`${data}${pathname}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        "x-cal-resource-uri": `https://calendar.example/v3/calendars/${person}/events?alt=json`,
        "x-cal-channel-id": "none",
        "x-cal-message-number": "1",
        "x-cal-resource-state": "exists",
        "x-note": textOf("header"),
      },
      body: JSON.stringify({ [textOf("key")]: textOf("payload"), person }),
    });
    await response.arrayBuffer();
  }
  const { notifications } = await client(WebhookService).listNotifications({ environment, integration: calendar });
  const matched = notifications.find(({ matches }) => matches.length > 0) ?? notifications[0];
  return matched?.id ?? "none";
}
