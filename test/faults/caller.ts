import { keyedConnection, secretKey } from "../support/sidecar/harness.ts";

/** A caller of the data listener of a sidecar in another process. Each call returns the status. */
export interface Caller {
  /** Creates the records that `connect` needs. */
  setUp(): Promise<number>;
  connect(id: string): Promise<number>;
  show(id: string): Promise<number>;
}

export function createCaller(address: string): Caller {
  async function call(method: string, path: string, body?: unknown): Promise<number> {
    const response = await fetch(`${address}${path}`, {
      method,
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    await response.arrayBuffer();
    return response.status;
  }
  return {
    setUp: () => call("POST", "/integrations", { unique_key: "keyed", provider: "example-api-key" }),
    connect: (id) => call("POST", "/connections", keyedConnection(id)),
    show: (id) => call("GET", `/connections/${id}?provider_config_key=keyed`),
  };
}
