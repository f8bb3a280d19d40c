import { createHash, randomBytes } from "node:crypto";
import { onTestFinished } from "vitest";
import { type Sandbox, type SandboxOptions, startSandbox } from "../../../src/dev/sandbox/sandbox.ts";

/** A sandbox on its own port, closed at the end of the test, and the calls of a client. */
export interface Started extends Sandbox {
  /** A request that follows no redirect. */
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  send(method: string, path: string, options?: SendOptions): Promise<Response>;
  /** Sends a form to the token endpoint; default client: the predefined one. */
  token(fields: Readonly<Record<string, string>>, headers?: Readonly<Record<string, string>>): Promise<Answered>;
}

interface SendOptions {
  readonly headers?: Readonly<Record<string, string>>;
  /** An object is sent as JSON, parameters as a form. */
  readonly body?: unknown;
}

export interface Answered {
  readonly status: number;
  readonly headers: Headers;
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
  readonly body: any;
}

export const basic = (id: string, secret: string) => `Basic ${Buffer.from(`${id}:${secret}`).toString("base64")}`;
export const own = { authorization: basic("sandbox", "sandbox-secret") };
export const bearer = (token: string) => ({ authorization: `Bearer ${token}` });

export async function started(options: SandboxOptions = {}): Promise<Started> {
  const sandbox = await startSandbox(options);
  onTestFinished(() => sandbox.close());
  const send: Started["send"] = (method, path, { headers = {}, body } = {}) => {
    const isRaw =
      body === undefined || typeof body === "string" || body instanceof Uint8Array || body instanceof URLSearchParams;
    return fetch(new URL(path, sandbox.origin), {
      method,
      redirect: "manual",
      headers: { ...(isRaw ? {} : { "content-type": "application/json" }), ...headers },
      ...(body === undefined ? {} : { body: isRaw ? (body as string) : JSON.stringify(body) }),
    });
  };
  return {
    ...sandbox,
    send,
    get: (path, headers = {}) => send("GET", path, { headers }),
    async token(fields, headers = own) {
      const response = await send("POST", "/oauth2/token", { headers, body: new URLSearchParams(fields) });
      return { status: response.status, headers: response.headers, body: await response.json() };
    },
  };
}

export const newVerifier = () => randomBytes(32).toString("base64url");
export const challengeOf = (verifier: string) => createHash("sha256").update(verifier).digest("base64url");
export const callback = "http://127.0.0.1:9/callback";

/** The consent page, as a browser parses it. */
export interface ConsentPage {
  readonly text: string;
  readonly headers: Headers;
  readonly users: readonly string[];
  readonly scopes: readonly string[];
  /** Presses a button and returns where the browser is sent. */
  answer(
    decision: "allow" | "deny",
    chosen?: { readonly user?: string; readonly scopes?: readonly string[] },
  ): Promise<Response>;
}

export async function consentPage({ send }: Started, response: Response): Promise<ConsentPage> {
  const text = await response.text();
  const all = (name: string) =>
    [...text.matchAll(new RegExp(`name="${name}" value="([^"]*)"`, "g"))].map(([, value = ""]) => value);
  const [request = ""] = all("request");
  const [users, scopes] = [all("user"), all("scope")];
  return {
    text,
    headers: response.headers,
    users,
    scopes,
    answer(decision, { user = users[0] ?? "", scopes: chosen = scopes } = {}) {
      const form = new URLSearchParams({ request, decision, user });
      for (const scope of chosen) form.append("scope", scope);
      return send("POST", "/consent", { body: form });
    },
  };
}

/** The address of an authorization request of the ready-made client. */
export function authorizePath(more: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams({
    response_type: "code",
    client_id: "sandbox",
    redirect_uri: callback,
    state: "the-state",
    scope: "openid email drive",
    ...more,
  });
  return `/oauth2/auth?${query}`;
}

/** The query parameters of the browser's redirect back. */
export function broughtBack(response: Response): URLSearchParams {
  const location = response.headers.get("location");
  if (location === null) throw new Error(`no redirect, but ${response.status}`);
  return new URL(location).searchParams;
}

/** A code, as Ada's consent brings it. */
export async function codeFor(sandbox: Started, more: Readonly<Record<string, string>> = {}): Promise<string> {
  const page = await consentPage(sandbox, await sandbox.get(authorizePath(more)));
  return broughtBack(await page.answer("allow")).get("code") ?? "";
}
