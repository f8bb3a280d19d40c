import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { IntegrationService } from "../../../src/gen/latchkey/v1/integration_pb.ts";
import { appOrigin, createTestBrowser, type TestBrowser } from "./connecting.ts";
import { startTestSidecar, type TestSidecar } from "./harness.ts";

/** A request to the provider, as it came. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage["headers"];
  /** The fields of a form or of JSON. */
  readonly form: Readonly<Record<string, string>>;
}

interface OwnAnswer {
  readonly status?: number;
  readonly body?: object;
  readonly headers?: Readonly<Record<string, string>>;
}

interface OwnProviderOptions {
  /** The description, with `${ORIGIN}` for the https origin of the provider. */
  readonly description: object;
  readonly integration?: object;
  readonly answer: (request: SeenRequest) => OwnAnswer | undefined;
  readonly env?: Readonly<Record<string, string>>;
  readonly now?: () => number;
}

/** A provider that a test describes itself, with a sidecar and an integration of the same name. */
export interface OwnProvider {
  readonly sidecar: TestSidecar;
  readonly seen: readonly SeenRequest[];
  readonly browser: TestBrowser;
  /** Sends the browser off, and returns the address at the provider that it is sent to. */
  leave(more?: Readonly<Record<string, string>>): Promise<URL>;
  /** Brings the browser back with these parameters of the provider. */
  comeBack(
    at: URL,
    parameters: Readonly<Record<string, string>>,
  ): Promise<{ readonly status: number; readonly text: string }>;
  /** The only connection, with its credentials. */
  connection(): Promise<Record<string, unknown> & { readonly credentials: Record<string, unknown> }>;
  connections(): Promise<readonly { readonly connection_id: string }[]>;
}

export async function ownProvider(options: OwnProviderOptions): Promise<OwnProvider> {
  const seen: SeenRequest[] = [];
  const server = createServer(async (incoming, response) => {
    const body = await text(incoming);
    const { pathname, searchParams } = new URL(incoming.url ?? "/", "http://here");
    const isJson = incoming.headers["content-type"]?.includes("json") === true;
    const request = {
      method: incoming.method ?? "",
      path: pathname,
      query: Object.fromEntries(searchParams),
      headers: incoming.headers,
      form: isJson ? JSON.parse(body) : Object.fromEntries(new URLSearchParams(body)),
    };
    seen.push(request);
    const answer = options.answer(request) ?? { status: 404, body: {} };
    response.writeHead(answer.status ?? 200, { "content-type": "application/json", ...answer.headers });
    response.end(JSON.stringify(answer.body ?? {}));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  const described = JSON.stringify(options.description).replaceAll("${ORIGIN}", `https://127.0.0.1:${port}`);
  const config = {
    environments: [{ name: "dev", allowed_origins: [appOrigin] }],
    providers: [{ name: "own", display_name: "Own", ...JSON.parse(described) }],
    integrations: [
      {
        environment: "dev",
        key: "own",
        provider: "own",
        oauth: { client_id: "client-1", client_secret: { env: "APP_SECRET" } },
        ...options.integration,
      },
    ],
  };
  const sidecar = await startTestSidecar({
    env: {
      LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(`http://127.0.0.1:${port}`),
      LATCHKEY_CONFIG: "/latchkey.yaml",
      APP_SECRET: "secret-of-the-app",
      ...options.env,
    },
    files: { "/latchkey.yaml": JSON.stringify(config) },
    ...(options.now === undefined ? {} : { now: options.now }),
  });
  const browser = createTestBrowser();
  const connections = async () => (await sidecar.rest("GET", "/connections")).body.connections;
  return {
    sidecar,
    seen,
    browser,
    connections,
    async leave(more = {}) {
      const made = await sidecar.rest("POST", "/connect/sessions", { body: { end_user: { id: "ada" } } });
      const query = new URLSearchParams({ connect_session_token: made.body.data.token, ...more });
      const answer = await browser.get(`${sidecar.data}/oauth/connect/own?${query}`);
      const location = answer.headers.get("location");
      if (location === null) throw new Error(`not sent to the provider: ${answer.status} ${await answer.text()}`);
      return new URL(location);
    },
    async comeBack(at, parameters) {
      const state = at.searchParams.get("state") ?? "";
      const query = new URLSearchParams({ state, ...parameters });
      const { setup } = await sidecar
        .client(IntegrationService)
        .getIntegrationSetup({ environment: "dev", provider: "own" });
      return browser.go(`${setup?.callbackUrl}?${query}`);
    },
    async connection() {
      const [item] = await connections();
      if (item === undefined) throw new Error("there is no connection");
      return (await sidecar.rest("GET", `/connections/${item.connection_id}?provider_config_key=own`)).body;
    },
  };
}
