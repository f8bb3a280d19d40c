import { onTestFinished } from "vitest";
import type { ResolveHost } from "../../../src/relay/egress.ts";
import { type McpPeer, type McpVendor, startMcpPeer } from "../../support/peers/mcp-peer.ts";
import { createTestBrowser } from "../../support/sidecar/connecting.ts";
import { startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";

export const publicUrl = "https://latchkey.example.com";
/** Every host is this machine. */
export const toLoopback: ResolveHost = async () => [{ address: "127.0.0.1", family: 4 }];

export interface PeerAndSidecar {
  readonly peer: McpPeer;
  readonly sidecar: TestSidecar;
}

interface PeerOptions {
  /** Empty: the address of the listener, which is not https. */
  readonly publicUrl?: string;
  /** Hosts that the sidecar may reach besides those of the vendor. */
  readonly others?: readonly string[];
  readonly now?: () => number;
  readonly config?: (peer: McpPeer) => object;
}

/** A vendor and a sidecar that may reach it. */
export async function peerAndSidecar(vendor: McpVendor, options: PeerOptions = {}): Promise<PeerAndSidecar> {
  const peer = await startMcpPeer(vendor);
  onTestFinished(() => peer.close());
  const others = (options.others ?? []).map((host) => `http://${host}:${peer.port}`);
  const { config } = options;
  const url = options.publicUrl ?? publicUrl;
  const sidecar = await startTestSidecar({
    env: {
      LATCHKEY_ALLOW_PRIVATE: [peer.allowed(), ...others].join(","),
      ...(url === "" ? {} : { LATCHKEY_PUBLIC_URL: url }),
      ...(config === undefined ? {} : { LATCHKEY_CONFIG: "/latchkey.yaml" }),
    },
    ...(config === undefined ? {} : { files: { "/latchkey.yaml": JSON.stringify(config(peer)) } }),
    ...(options.now === undefined ? {} : { now: options.now }),
    resolve: toLoopback,
  });
  return { peer, sidecar };
}

/** Creates an integration from the URL alone. */
export const create = ({ sidecar, peer }: PeerAndSidecar, key = "tools", more: object = {}) =>
  sidecar.rest("POST", "/integrations", { body: { unique_key: key, mcp_url: peer.url, ...more } });

/** Connects an account as a browser does, and returns the query of the authorization request. */
export async function connect(
  { sidecar, peer }: Pick<PeerAndSidecar, "sidecar"> & { readonly peer: Pick<McpPeer, "visit"> },
  { key = "tools", reconnect }: { readonly key?: string; readonly reconnect?: string } = {},
): Promise<URLSearchParams> {
  const path = reconnect === undefined ? "/connect/sessions" : "/connect/sessions/reconnect";
  const body =
    reconnect === undefined ? { end_user: { id: "ada" } } : { connection_id: reconnect, integration_id: key };
  const session = await sidecar.rest("POST", path, { body });
  const browser = createTestBrowser();
  const page = `${sidecar.data}/oauth/connect/${key}?connect_session_token=${session.body.data.token}`;
  const departure = await browser.get(page);
  const away = departure.headers.get("location") ?? "";
  if (away === "") throw new Error(`no authorization began: ${await departure.text()}`);
  const { location } = await peer.visit(away);
  if (location === "") throw new Error("the authorization server sent nobody back");
  const done = await browser.go(`${sidecar.data}${new URL(location).pathname}${new URL(location).search}`);
  if (!done.text.includes("is connected")) throw new Error(`not connected: ${done.text}`);
  return new URL(away).searchParams;
}

/** Sends a message through `/mcp/<integration>`. */
export const call = (
  { sidecar }: Pick<PeerAndSidecar, "sidecar">,
  message: object,
  { key = "tools", headers = {} }: { readonly key?: string; readonly headers?: Record<string, string> } = {},
) =>
  sidecar.rest("POST", `/mcp/${key}`, {
    body: { jsonrpc: "2.0", id: 1, ...message },
    headers: { accept: "application/json, text/event-stream", ...headers },
  });

export const connectionsOf = async ({ sidecar }: Pick<PeerAndSidecar, "sidecar">) =>
  (await sidecar.rest("GET", "/connections")).body.connections as readonly {
    readonly connection_id: string;
    readonly errors: readonly { readonly type: string }[];
  }[];
