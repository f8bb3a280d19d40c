import { request as httpRequest } from "node:http";
import { type Application, startApplication } from "../peers/application.ts";
import { type HarnessOptions, startTestSidecar, type TestSidecar } from "./harness.ts";

export const calendarUri = (calendar: string): string =>
  `https://calendar.example/v3/calendars/${calendar}/events?alt=json`;

export interface Notifying {
  readonly integration?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

export interface Receiving {
  readonly sidecar: TestSidecar;
  readonly application: Application;
  /** Creates an integration of a provider; default key: the provider's name. */
  integrate(provider: string, more?: object): Promise<void>;
  connect(id: string, more?: object): Promise<void>;
  /** Sends a notification, as a provider does. */
  notify(notifying?: Notifying): Promise<{ readonly status: number; readonly text: string; readonly headers: Headers }>;
  /** A calendar's notification. */
  notifyOf(uri: string, number?: number | string, more?: Readonly<Record<string, string>>): Promise<number>;
  /** Restarts the sidecar over the same store. */
  restart(): Promise<TestSidecar>;
}

/** A sidecar with an integration `calendar`, and the application that it forwards to. */
export async function startReceiving({ env = {}, ...rest }: HarnessOptions = {}): Promise<Receiving> {
  const application = await startApplication();
  const start = (folder?: string) =>
    startTestSidecar({
      ...rest,
      ...(folder === undefined ? {} : { folder }),
      env: { LATCHKEY_FORWARD_URL: application.url, ...env },
    });
  let sidecar = await start(rest.folder);
  const addresses = new Map<string, string>();

  async function addressOf(integration: string): Promise<string> {
    const known = addresses.get(integration);
    if (known !== undefined) return known;
    const { status, body } = await sidecar.rest("GET", `/integrations/${integration}?include=webhook`);
    if (status !== 200) throw new Error(`there is no integration ${integration}`);
    const { pathname } = new URL(body.data.webhook_url);
    addresses.set(integration, pathname);
    return pathname;
  }

  const receiving: Receiving = {
    get sidecar() {
      return sidecar;
    },
    application,
    async integrate(provider, more = {}) {
      const body = { unique_key: provider, provider, ...more };
      const made = await sidecar.rest("POST", "/integrations", { body });
      if (made.status !== 200) throw new Error(`the integration was not made: ${JSON.stringify(made.body)}`);
    },
    async connect(id, more = {}) {
      const body = {
        provider_config_key: "calendar",
        connection_id: id,
        credentials: { type: "OAUTH2", access_token: `token-of-${id}` },
        ...more,
      };
      const made = await sidecar.rest("POST", "/connections", { body });
      if (made.status !== 201) throw new Error(`the connection was not made: ${JSON.stringify(made.body)}`);
    },
    async notify({ integration = "calendar", headers = {}, body } = {}) {
      const answer = await fetch(`${sidecar.data}${await addressOf(integration)}`, {
        method: "POST",
        headers,
        ...(body !== undefined && { body }),
      });
      return { status: answer.status, text: await answer.text(), headers: answer.headers };
    },
    async notifyOf(uri, number = 1, more = {}) {
      const { status } = await receiving.notify({
        headers: {
          "x-cal-channel-id": "channel-1",
          "x-cal-resource-id": "resource-1",
          "x-cal-resource-uri": uri,
          "x-cal-resource-state": "exists",
          "x-cal-message-number": String(number),
          ...more,
        },
      });
      return status;
    },
    async restart() {
      const { folder } = sidecar;
      await sidecar.stop();
      sidecar = await start(folder);
      return sidecar;
    },
  };
  await receiving.integrate("calendar", {
    credentials: { type: "OAUTH2", client_id: "client", client_secret: "secret" },
  });
  return receiving;
}

/** Sends a raw request head that `fetch` would not send. Resolves with the status. */
export function sendRaw(url: string, head: Readonly<Record<string, string>>, body = ""): Promise<number> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(url, { method: "POST", headers: head }, (response) => {
      response.resume().on("end", () => resolve(response.statusCode ?? 0));
    });
    request.on("error", reject).end(body);
  });
}
