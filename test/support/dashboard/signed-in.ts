import type { Code } from "@connectrpc/connect";

/** A browser that is signed in to the dashboard: what its page sends with each call. */
export interface SignedIn {
  readonly origin: string;
  readonly cookie: string;
  readonly secret: string;
  /** The headers of a call of the page. */
  readonly headers: Readonly<Record<string, string>>;
}

export interface RpcAnswer {
  readonly status: number;
  /** The name of our error; null if the call succeeded. */
  readonly error: string | null;
  readonly code?: Lowercase<keyof typeof Code>;
  readonly message?: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test says itself what it expects of an answer.
  readonly body: any;
}

/** Sends a request as a page of this origin does. */
export const asPage = (origin: string, path: string, init: RequestInit = {}): Promise<Response> =>
  fetch(`${origin}${path}`, {
    redirect: "manual",
    ...init,
    headers: {
      origin,
      "sec-fetch-site": "same-origin",
      ...(init.body === undefined ? {} : { "content-type": "application/json" }),
      ...(init.headers as Record<string, string>),
    },
  });

export const postSession = (origin: string, body: object, headers: Record<string, string> = {}) =>
  asPage(origin, "/ui/session", { method: "POST", body: JSON.stringify(body), headers });

/** Signs in with `{key}` or `{link}`. */
export async function signIn(origin: string, body: object, headers: Record<string, string> = {}): Promise<SignedIn> {
  const response = await postSession(origin, body, headers);
  if (response.status !== 200) throw new Error(`not signed in: ${response.status} ${await response.text()}`);
  const [, cookie = ""] = /^((?:__Host-)?latchkey-session=[^;]+)/.exec(response.headers.getSetCookie()[0] ?? "") ?? [];
  const { secret } = (await response.json()) as { secret: string };
  return {
    origin,
    cookie,
    secret,
    headers: { cookie, "latchkey-session": secret, origin, "sec-fetch-site": "same-origin" },
  };
}

/** Calls a method over Connect with JSON, with exactly these headers. */
export async function rpc(
  origin: string,
  method: string,
  headers: Readonly<Record<string, string>>,
  message: object = {},
): Promise<RpcAnswer> {
  const response = await fetch(`${origin}/latchkey.v1.${method}`, {
    method: "POST",
    body: JSON.stringify(message),
    headers: { "content-type": "application/json", ...headers },
  });
  const text = await response.text();
  // biome-ignore lint/suspicious/noExplicitAny: see above.
  const body: any = text === "" ? undefined : JSON.parse(text);
  const { status } = response;
  return { status, error: response.headers.get("latchkey-error"), code: body?.code, message: body?.message, body };
}
