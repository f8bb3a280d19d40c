import { allowPrivateFor, describeProviders } from "../../../src/dev/sandbox/providers.ts";
import type { SandboxOptions } from "../../../src/dev/sandbox/sandbox.ts";
import { proxyCall } from "../../cases/sandbox/proxied.ts";
import { started } from "../../cases/sandbox/started.ts";
import { type HarnessOptions, startTestSidecar, type TestSidecar } from "./harness.ts";

const app = { credentials: { type: "OAUTH2", client_id: "sandbox", client_secret: "sandbox-secret" } };
export const provider = "sandbox-unified";

interface Renewing extends Pick<HarnessOptions, "now" | "folder"> {
  readonly sandbox?: SandboxOptions;
  readonly env?: Readonly<Record<string, string>>;
  /** The refresh-token settings of the provider's description. */
  readonly refreshTokens?: Readonly<Record<string, unknown>>;
}

/** A sidecar whose connections a sandbox refreshes. */
export async function startRenewing({ sandbox: options = {}, env = {}, refreshTokens, ...rest }: Renewing = {}) {
  const sandbox = await started(options);
  const described = describeProviders(sandbox.origin).map((one) =>
    one.name === provider && refreshTokens !== undefined
      ? { ...one, oauth2: { ...Object(one["oauth2"]), refresh_tokens: refreshTokens } }
      : one,
  );
  const beside = (more: Renewing = {}): Promise<TestSidecar> =>
    startTestSidecar({
      ...rest,
      ...more,
      env: {
        LATCHKEY_ALLOW_PRIVATE: allowPrivateFor(sandbox.origin),
        LATCHKEY_CONFIG: "/latchkey.yaml",
        ...env,
        ...more.env,
      },
      files: { "/latchkey.yaml": JSON.stringify({ providers: described }) },
    });
  const sidecar = await beside();
  const { connect, call } = proxyCall(sidecar);
  /** Creates the connection `ada`; by default its credentials expired a minute ago. */
  async function connectAda({ expiresInS = -60 }: { readonly expiresInS?: number } = {}) {
    const { access_token, refresh_token, grant } = sandbox.grant();
    const now = rest.now?.() ?? Date.now();
    const expires_at = new Date(now + expiresInS * 1_000).toISOString();
    await connect(provider, { type: "OAUTH2", access_token, refresh_token, expires_at }, app);
    return { access_token, refresh_token, grant };
  }
  const get = (path = "/drive/v3/files"): Promise<Response> => call(provider, path);
  const show = async (query = "") =>
    (await sidecar.rest("GET", `/connections/ada?provider_config_key=${provider}${query}`)).body;
  /** The number of requests to the token endpoint. */
  const renewals = () => sandbox.seen().requests.token ?? 0;
  return { sandbox, sidecar, beside, connectAda, get, call, show, renewals };
}
