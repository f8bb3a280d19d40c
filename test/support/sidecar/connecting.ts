import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import type { SandboxOptions } from "../../../src/dev/sandbox/sandbox.ts";
import { LogService } from "../../../src/gen/latchkey/v1/log_pb.ts";
import { type Started, started } from "../../cases/sandbox/started.ts";
import { type HarnessOptions, startTestSidecar, type TestSidecar } from "./harness.ts";

/** The origin of the application whose pages may use the browser routes. */
export const appOrigin = "https://app.example.com";

const app = { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" };

export interface Connecting {
  readonly sandbox: Started;
  readonly sidecar: TestSidecar;
  /** The token of a new connect session. */
  session(more?: object): Promise<string>;
  reconnectSession(connection: string, more?: object): Promise<string>;
  /** The connections of an integration, as RPC and JSON show them. */
  connections(): Promise<readonly { readonly connection_id: string; readonly [field: string]: unknown }[]>;
  /** A whole connection, with its credentials. */
  connection(
    integration: string,
    id: string,
  ): Promise<Record<string, unknown> & { credentials: Record<string, unknown> }>;
  browser(): TestBrowser;
  /** Environment variables for a second sidecar with the same keys. */
  readonly environment: Readonly<Record<string, string>>;
  readonly files: Readonly<Record<string, string>>;
}

interface ConnectingOptions {
  readonly sandbox?: SandboxOptions;
  readonly sidecar?: HarnessOptions;
  /** Extra settings of the integrations, by provider. */
  readonly providers?: (origin: string) => readonly object[];
  readonly integrations?: readonly object[];
  /** Further settings of the configuration file. */
  readonly settings?: object;
  /** Variables of the scripts. */
  readonly variables?: Readonly<Record<string, string>>;
  /** The origin of the application's pages; default: `appOrigin`. */
  readonly origin?: string;
}

/** A sandbox, a sidecar that knows it, and an integration of each of its providers, named like it. */
export async function connecting(options: ConnectingOptions = {}): Promise<Connecting> {
  const sandbox = await started({ behaviour: { consent: "allow" }, ...options.sandbox });
  const config = {
    ...options.settings,
    environments: [{ name: "dev", allowed_origins: [options.origin ?? appOrigin], variables: options.variables ?? {} }],
    providers: [...describeProviders(sandbox.origin), ...(options.providers?.(sandbox.origin) ?? [])],
    integrations: [
      ...["sandbox-files", "sandbox-unified", "sandbox-calendar", "sandbox-oauth1"].map((provider) => ({
        environment: "dev",
        key: provider,
        provider,
        oauth: { client_id: app.client_id, client_secret: { env: "APP_SECRET" } },
      })),
      ...["sandbox-client-credentials", "sandbox-api-key", "sandbox-basic"].map((provider) => ({
        environment: "dev",
        key: provider,
        provider,
      })),
      ...(options.integrations ?? []),
    ],
  };
  const environment = {
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
    LATCHKEY_CONFIG: "/latchkey.yaml",
    APP_SECRET: app.client_secret,
  };
  // JSON is YAML.
  const files = { "/latchkey.yaml": JSON.stringify(config) };
  const sidecar = await startTestSidecar({
    ...options.sidecar,
    env: { ...environment, ...options.sidecar?.env },
    files,
  });
  const made = async (path: string, body: object) => {
    const answer = await sidecar.rest("POST", path, { body });
    if (answer.status !== 201) throw new Error(`no session was made: ${JSON.stringify(answer.body)}`);
    return answer.body.data.token as string;
  };
  return {
    sandbox,
    sidecar,
    session: (more = {}) => made("/connect/sessions", { end_user: { id: "ada" }, ...more }),
    reconnectSession: (connection, { integration_id = "sandbox-files", ...more }: { integration_id?: string } = {}) =>
      made("/connect/sessions/reconnect", { connection_id: connection, integration_id, ...more }),
    connections: async () => (await sidecar.rest("GET", "/connections")).body.connections,
    connection: async (integration, id) =>
      (await sidecar.rest("GET", `/connections/${id}?provider_config_key=${integration}&refresh_token=true`)).body,
    browser: createTestBrowser,
    environment,
    files,
  };
}

/** The parts of a browser that tests need: cookies by host, and redirects. */
export interface TestBrowser {
  /** Sends one request, without following its redirect. */
  get(url: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** Follows redirects until there is a page. */
  go(url: string): Promise<Page>;
  /** Follows redirects until one leads to an address that begins so, and returns it without going there. */
  until(url: string, prefix: string): Promise<string>;
  /** A form, sent; where it leads is not followed. */
  post(url: string, form: URLSearchParams): Promise<Response>;
  /** Follows redirects to a page, or to an address with this prefix, whichever comes first. */
  toward(url: string, prefix: string): Promise<Page | string>;
  readonly cookies: Map<string, string>;
}

export interface Page {
  readonly status: number;
  readonly url: string;
  readonly text: string;
  readonly headers: Headers;
}

export function createTestBrowser(): TestBrowser {
  const cookies = new Map<string, string>();

  async function ask(url: string, init: RequestInit = {}): Promise<Response> {
    const { hostname } = new URL(url);
    const own = [...cookies].flatMap(([key, value]) =>
      key.startsWith(`${hostname} `) ? [`${key.split(" ")[1]}=${value}`] : [],
    );
    const cookie: Record<string, string> = own.length === 0 ? {} : { cookie: own.join("; ") };
    const response = await fetch(url, {
      redirect: "manual",
      ...init,
      headers: { ...cookie, ...(init.headers as Record<string, string>) },
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name = "", value = ""] = /^([^=]+)=([^;]*)/.exec(line) ?? [];
      cookies.set(`${hostname} ${name}`, value);
    }
    return response;
  }

  async function toward(url: string, prefix: string | undefined): Promise<Page | string> {
    for (let at = url, i = 0; i < 10; i += 1) {
      const response = await ask(at);
      const { status, headers } = response;
      const text = await response.text();
      const location = headers.get("location") ?? refreshOf(text);
      if (location === null) return { status, url: at, text, headers };
      at = new URL(location, at).href;
      if (prefix !== undefined && at.startsWith(prefix)) return at;
    }
    throw new Error("the browser was sent around in circles");
  }

  return {
    get: (url, headers = {}) => ask(url, { headers }),
    post: (url, form) => ask(url, { method: "POST", body: form }),
    cookies,
    toward,
    async go(url) {
      const page = await toward(url, undefined);
      if (typeof page === "string") throw new Error("nothing was to be stopped at");
      return page;
    },
    async until(url, prefix) {
      const arrived = await toward(url, prefix);
      if (typeof arrived === "string") return arrived;
      throw new Error(`a page with ${arrived.status} came first`);
    },
  };
}

/** The target of a page's refresh. */
export const refreshOf = (page: string): string | null =>
  /<meta http-equiv="refresh" content="0;url=([^"]*)">/.exec(page)?.[1]?.replaceAll("&amp;", "&") ?? null;

export const departure = (
  { sidecar }: Connecting,
  token: string,
  more: Record<string, string> = {},
  key = "sandbox-files",
) => `${sidecar.data}/oauth/connect/${key}?${new URLSearchParams({ connect_session_token: token, ...more })}`;

/** The address with which the provider sends a browser back, not yet visited. */
export const broughtBackTo = (all: Connecting, browser: TestBrowser, url: string) =>
  browser.until(url, `${all.sidecar.data}/oauth/callback`);

/** The number of requests to the provider's token endpoint. */
export const tokenCalls = ({ sandbox }: Connecting): number => sandbox.seen().requests.token ?? 0;

export const auditOf = async ({ sidecar }: Connecting, action: string) =>
  (await sidecar.client(LogService).listAuditEvents({ action })).events;
