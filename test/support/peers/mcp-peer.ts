import { createHash, randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse, request as send } from "node:http";
import { describeListener, listen } from "../../../src/base/http/listener.ts";

/** What a vendor publishes, by URL, as its own hosts are named. Ports are added. */
export interface McpVendor {
  /** URL of the MCP endpoint. */
  readonly url: string;
  /** Value of `WWW-Authenticate` for requests without a token; undefined: no challenge; `open`: answers everyone. */
  readonly challenge?: string | undefined;
  readonly documents: Readonly<Record<string, object>>;
}

export interface McpPeerRequest {
  readonly method: string;
  /** URL as the vendor writes it, without the port. */
  readonly url: string;
  readonly headers: IncomingMessage["headers"];
  readonly body: string;
}

/** An MCP server and its authorization server on one port, by the names of their hosts. */
export interface McpPeer {
  /** URL of the MCP endpoint, with the port. */
  readonly url: string;
  readonly port: number;
  readonly requests: McpPeerRequest[];
  /** Replaces what is published. */
  publish(vendor: McpVendor): void;
  /** Answers registrations so; default: a client with a secret, if the client asks for one. */
  registration: (metadata: Record<string, unknown>) => { readonly status: number; readonly body: object };
  /** Answers revocations so, whatever is published now; undefined: as any other request to that address. */
  revocation: (() => { readonly status: number; readonly body: object }) | undefined;
  /** Handles an authorized request to the MCP endpoint. */
  answer: (message: RpcMessage, response: ServerResponse, request: McpPeerRequest) => void;
  /** Values for LATCHKEY_ALLOW_PRIVATE. */
  allowed(): string;
  /** Sends a browser's request to a URL of the vendor. Returns status and location. */
  visit(url: string): Promise<{ readonly status: number; readonly location: string }>;
  requestsTo(path: string): McpPeerRequest[];
  close(): Promise<void>;
}

export interface RpcMessage {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: { readonly name?: string; readonly arguments?: Record<string, unknown> };
}

interface Grant {
  readonly clientId: string;
  readonly challenge: string;
  readonly redirectUri: string;
  readonly resource: string;
  readonly issuer: string;
}

export const result = (response: ServerResponse, id: RpcMessage["id"], value: object) => {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", id, result: value }));
};

/** Starts a peer that publishes a vendor's metadata and behaves as they say. */
export async function startMcpPeer(first: McpVendor): Promise<McpPeer> {
  let vendor = first;
  const requests: McpPeerRequest[] = [];
  const codes = new Map<string, Grant>();
  const tokens = new Map<string, Grant>();
  const server = createServer((request, response) => {
    const parts: Buffer[] = [];
    request.on("data", (part: Buffer) => void parts.push(part));
    request.on("end", () => {
      const host = (request.headers.host ?? "").replace(/:\d+$/, "");
      const url = `https://${host}${request.url ?? ""}`;
      const received = {
        method: request.method ?? "",
        url,
        headers: request.headers,
        body: Buffer.concat(parts).toString(),
      };
      requests.push(received);
      handle(received, response);
    });
  });
  await listen(server, { kind: "tcp", host: "127.0.0.1", port: 0 });
  const port = Number(new URL(describeListener(server, false)).port);
  const withPort = (text: string) => text.replaceAll(/https:\/\/([a-z0-9.-]+)(?=[/"]|$)/g, `https://$1:${port}`);
  const json = (response: ServerResponse, status: number, body: object) => {
    response.writeHead(status, { "content-type": "application/json" });
    response.end(withPort(JSON.stringify(body)));
  };
  const metadata = (): Record<string, unknown> =>
    (Object.values(vendor.documents).find((one) => "token_endpoint" in one) ?? {}) as Record<string, unknown>;

  function handle(request: McpPeerRequest, response: ServerResponse): void {
    const [address = ""] = request.url.split("?");
    const document = vendor.documents[address];
    const { authorization_endpoint, token_endpoint, registration_endpoint } = metadata();
    const isRevocation = request.method === "POST" && request.body.includes("token_type_hint=");
    const revoked = isRevocation ? peer.revocation?.() : undefined;
    if (revoked !== undefined) json(response, revoked.status, revoked.body);
    else if (document !== undefined && request.method === "GET") json(response, 200, document);
    else if (address === authorization_endpoint) authorize(request, response);
    else if (address === token_endpoint && request.method === "POST") exchange(request, response);
    else if (address === registration_endpoint && request.method === "POST") {
      const { status, body } = peer.registration(JSON.parse(request.body));
      json(response, status, body);
    } else if (new URL(address).href === new URL(vendor.url).href) serve(request, response);
    else json(response, 404, { error: "not_found" });
  }

  function authorize({ url }: McpPeerRequest, response: ServerResponse): void {
    const query = new URL(url).searchParams;
    const code = randomUUID();
    const own = metadata();
    const issuer = String(own["issuer"]);
    codes.set(code, {
      clientId: query.get("client_id") ?? "",
      challenge: query.get("code_challenge") ?? "",
      redirectUri: query.get("redirect_uri") ?? "",
      resource: query.get("resource") ?? "",
      issuer,
    });
    const back = new URL(query.get("redirect_uri") ?? "");
    back.searchParams.set("code", code);
    back.searchParams.set("state", query.get("state") ?? "");
    if (own["authorization_response_iss_parameter_supported"] === true) back.searchParams.set("iss", withPort(issuer));
    response.writeHead(302, { location: back.href }).end();
  }

  function exchange({ body, headers }: McpPeerRequest, response: ServerResponse): void {
    const form = new URLSearchParams(body);
    const isRefresh = form.get("grant_type") === "refresh_token";
    const given = isRefresh ? form.get("refresh_token") : form.get("code");
    const grant = (isRefresh ? tokens : codes).get(given ?? "");
    codes.delete(given ?? "");
    const basic = Buffer.from((headers.authorization ?? "").replace("Basic ", ""), "base64").toString();
    const clientId = form.get("client_id") ?? decodeURIComponent(basic.split(":")[0] ?? "");
    const proof = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    const isProven = isRefresh || (proof === grant?.challenge && form.get("redirect_uri") === grant.redirectUri);
    const isOwn = grant !== undefined && clientId === grant.clientId && form.get("resource") === grant.resource;
    if (!isOwn || !isProven) {
      json(response, 400, { error: "invalid_grant" });
      return;
    }
    const [accessToken, refreshToken] = [`at-${randomUUID()}`, `rt-${randomUUID()}`];
    tokens.set(accessToken, grant);
    tokens.set(refreshToken, grant);
    json(response, 200, {
      access_token: accessToken,
      refresh_token: refreshToken,
      token_type: "bearer",
      expires_in: 3600,
    });
  }

  function serve(request: McpPeerRequest, response: ServerResponse): void {
    const token = (request.headers.authorization ?? "").replace("Bearer ", "");
    const isOpen = vendor.challenge === "open";
    // A token of another issuer is not accepted, as an access token of a former one must not be.
    if (!isOpen && tokens.get(token)?.issuer !== String(metadata()["issuer"])) {
      const challenge = vendor.challenge === undefined ? {} : { "www-authenticate": withPort(vendor.challenge) };
      response.writeHead(401, challenge).end();
      return;
    }
    const message = request.method === "POST" ? (JSON.parse(request.body) as RpcMessage) : { method: request.method };
    peer.answer(message, response, request);
  }

  const peer: McpPeer = {
    url: withPort(vendor.url),
    port,
    requests,
    publish(next) {
      vendor = next;
    },
    registration: ({ token_endpoint_auth_method: method, redirect_uris }) => ({
      status: 201,
      body: {
        client_id: `client-${randomUUID()}`,
        redirect_uris,
        token_endpoint_auth_method: method,
        ...(method === "none" ? {} : { client_secret: `secret-${randomUUID()}`, client_secret_expires_at: 0 }),
      },
    }),
    revocation: undefined,
    answer: (message, response) => {
      if (message.method === "tools/list")
        result(response, message.id, { tools: [{ name: "echo", inputSchema: { type: "object" } }] });
      else if (message.method === "server/discover" || message.method === "initialize") {
        result(response, message.id, {
          protocolVersion: "2025-11-25",
          capabilities: {},
          serverInfo: { name: "peer", version: "1" },
        });
      } else result(response, message.id, { content: [{ type: "text", text: JSON.stringify(message.params ?? {}) }] });
    },
    allowed() {
      const hosts = JSON.stringify([vendor.url, vendor.documents]).matchAll(/https:\/\/([a-z0-9.-]+)/g);
      return [...new Set([...hosts].map(([, host]) => `http://${host}:${port}`))].join(",");
    },
    visit: (url) =>
      new Promise((resolve, reject) => {
        const { host, pathname, search } = new URL(url);
        const options = { port, path: pathname + search, headers: { host } };
        const sent = send(options, (response) => {
          response.resume();
          resolve({ status: response.statusCode ?? 0, location: response.headers.location ?? "" });
        });
        sent.on("error", reject);
        sent.end();
      }),
    requestsTo: (path) => requests.filter(({ url }) => new URL(url).pathname === path),
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
  return peer;
}
