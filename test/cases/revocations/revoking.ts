import { allowPrivateFor } from "../../../src/dev/sandbox/providers.ts";
import { type Answering, type RecordedRequest, startProvider } from "../../support/peers/provider.ts";
import { type HarnessOptions, secretKey, startTestSidecar, type TestSidecar } from "../../support/sidecar/harness.ts";

/** How the provider treats a request to end a token. */
export type RevocationAnswer = "ok" | "away" | { readonly status: number; readonly body?: unknown };

interface Revoking extends HarnessOptions {
  /** Further fields of the provider's description. */
  readonly description?: (origin: string) => object;
  readonly oauth2?: (origin: string) => object;
}

export interface ReceivedRevocation {
  readonly line: string;
  readonly authorization: string;
  readonly body: string;
  readonly header: (name: string) => string | undefined;
}

/** A provider that records the requests that end tokens, and the settings of sidecars that know it. */
export async function startRevoking({ description, oauth2, ...harness }: Revoking = {}) {
  const received: ReceivedRevocation[] = [];
  const state: { answer: RevocationAnswer } = { answer: "ok" };
  const say = (socket: Parameters<Answering>[1], status: number, value: unknown) => {
    const body = value === undefined ? "" : JSON.stringify(value);
    const head = `HTTP/1.1 ${status} X\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}`;
    socket.write(`${head}\r\n\r\n${body}`);
  };
  const provider = await startProvider((request, socket) => {
    if (request.line.startsWith("POST /token")) {
      say(socket, 200, { access_token: "at-renewed", refresh_token: "rt-renewed", expires_in: 3_600 });
      return;
    }
    received.push(revocationOf(request));
    const { answer } = state;
    if (answer === "away") socket.destroy();
    else if (answer === "ok") say(socket, 200, undefined);
    else say(socket, answer.status, answer.body);
  });
  const origin = `https://127.0.0.1:${provider.port}`;
  const described = {
    name: "revoking",
    oauth2: {
      authorization_url: `${origin}/auth`,
      token_url: `${origin}/token`,
      revocation_url: `${origin}/revoke`,
      ...oauth2?.(origin),
    },
    proxy: { base_url: origin },
    ...description?.(origin),
  };
  const env = {
    LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(`http://127.0.0.1:${provider.port}`),
    LATCHKEY_CONFIG: "/l.yaml",
    ...harness.env,
  };
  const file = JSON.stringify({ providers: [described] });
  const start = (more: HarnessOptions = {}): Promise<TestSidecar> =>
    startTestSidecar({ ...harness, ...more, env: { ...env, ...more.env }, files: { "/l.yaml": file } });
  return { received, state, env, file, start, origin };
}

const revocationOf = ({ line, fields, body }: RecordedRequest): ReceivedRevocation => ({
  line,
  body,
  authorization: fields.find(([name]) => name === "authorization")?.[1] ?? "",
  header: (wanted) => fields.find(([name]) => name === wanted)?.[1],
});

/** The tokens of revocations in RFC 7009's form, in order. */
export const tokensIn = (received: readonly ReceivedRevocation[]) =>
  received.map(({ body }) => new URLSearchParams(body).get("token"));

type Rest = TestSidecar["rest"];

/** REST calls to a sidecar of another process. */
export const restAt =
  (data: string): Rest =>
  async (method, path, { body } = {}) => {
    const response = await fetch(`${data}${path}`, {
      method,
      headers: { authorization: `Bearer ${secretKey}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    return { status: response.status, headers: response.headers, body: await response.json() };
  };

const app = { type: "OAUTH2", client_id: "app", client_secret: "app-secret" };

export const createIntegration = (rest: Rest, key = "revoking") =>
  rest("POST", "/integrations", { body: { unique_key: key, provider: "revoking", credentials: app } });

interface Connected {
  readonly key?: string;
  readonly credentials?: object;
  readonly more?: object;
}

export const connect = (rest: Rest, id: string, { key = "revoking", credentials, more }: Connected = {}) =>
  rest("POST", "/connections", {
    body: {
      connection_id: id,
      provider_config_key: key,
      credentials: { type: "OAUTH2", access_token: `at-${id}`, refresh_token: `rt-${id}`, ...credentials },
      ...more,
    },
  });

export const remove = (rest: Rest, id: string, query = "", key = "revoking") =>
  rest("DELETE", `/connections/${id}?provider_config_key=${key}${query}`);

export const revocations = async (rest: Rest, query = "") =>
  (await rest("GET", `/revocations${query}`)).body.revocations as readonly Record<string, unknown>[];
