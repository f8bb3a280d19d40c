import { secretKey, type TestSidecar } from "../../support/sidecar/harness.ts";

/** Connections of a sidecar to the sandbox's providers, and requests through them. */
export const proxyCall = ({ rest, data }: TestSidecar) => ({
  /** Creates an integration named like its provider, and its connection `ada`. */
  async connect(provider: string, credentials: object, integration: object = {}): Promise<void> {
    const made = await rest("POST", "/integrations", { body: { unique_key: provider, provider, ...integration } });
    if (made.status !== 200) throw new Error(`the integration was not made: ${JSON.stringify(made.body)}`);
    const imported = await rest("POST", "/connections", {
      body: { provider_config_key: provider, connection_id: "ada", credentials },
    });
    if (imported.status !== 201) throw new Error(`the connection was not made: ${JSON.stringify(imported.body)}`);
  },
  call: (provider: string, path: string, init: RequestInit = {}): Promise<Response> =>
    fetch(`${data}/proxy${path}`, {
      ...init,
      headers: { authorization: `Bearer ${secretKey}`, "provider-config-key": provider, "connection-id": "ada" },
    }),
});
