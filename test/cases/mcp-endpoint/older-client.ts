import { expect, onTestFinished } from "vitest";
import { secretKey, type TestSidecar } from "../../support/sidecar/harness.ts";
import { type MessageReader, readMessages } from "./events.ts";

/** A client of 2025-11-25 with a session. */
export interface OlderClient {
  readonly session: string;
  /** Sends a message, and reads what comes back. */
  send(message: object, options?: SendOptions): Promise<SentMessage>;
  /** Opens the stream of the session. */
  open(headers?: Readonly<Record<string, string>>): Promise<SentMessage>;
  /** Answers a question, at this or another sidecar. */
  reply(id: string, answer: object, options?: SendOptions & { readonly at?: Addressed }): Promise<ReplyAnswer>;
}

type Addressed = Pick<TestSidecar, "data">;

interface SendOptions {
  readonly key?: string;
  readonly session?: string;
  readonly accept?: string;
}

interface SentMessage extends MessageReader {
  readonly status: number;
  leave(): void;
}

interface ReplyAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
  readonly body: any;
}

const versionHeader = { "mcp-protocol-version": "2025-11-25" };
const both = "application/json, text/event-stream";

export async function olderClient(
  sidecar: Addressed,
  capabilities: object,
  { key: own = secretKey } = {},
): Promise<OlderClient> {
  const clientInfo = { name: "tester", version: "1.0" };
  const params = { protocolVersion: "2025-11-25", capabilities, clientInfo };
  const begun = await post(sidecar, { id: 0, method: "initialize", params }, { accept: both, ...keyHeader(own) });
  const session = begun.headers.get("mcp-session-id") ?? "";
  expect(session).not.toBe("");

  async function request(init: RequestInit): Promise<SentMessage> {
    const leaving = new AbortController();
    onTestFinished(() => leaving.abort());
    const answer = await fetch(`${sidecar.data}/mcp`, { ...init, signal: leaving.signal });
    return { status: answer.status, ...readMessages(answer), leave: () => leaving.abort() };
  }

  const headersOf = ({ key = own, session: named = session, accept = both }: SendOptions) => ({
    ...versionHeader,
    ...keyHeader(key),
    "mcp-session-id": named,
    accept,
  });

  return {
    session,
    send: (message, options = {}) =>
      request({
        method: "POST",
        headers: { ...headersOf(options), "content-type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      }),
    open: (headers = {}) => request({ headers: { ...headersOf({ accept: "text/event-stream" }), ...headers } }),
    async reply(id, answer, { at = sidecar, key = own, ...options } = {}) {
      const answered = await post(at, { id, ...answer }, headersOf({ key, ...options }));
      const text = await answered.text();
      return { status: answered.status, body: text === "" ? undefined : JSON.parse(text) };
    },
  };
}

const keyHeader = (key: string) => ({ authorization: `Bearer ${key}` });

const post = ({ data }: Addressed, message: object, headers: Readonly<Record<string, string>>): Promise<Response> =>
  fetch(`${data}/mcp`, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify({ jsonrpc: "2.0", ...message }),
  });
