import { parseChangeable } from "../../../src/config/config.ts";
import { type ProxiedSidecar, startProvider, startProxied } from "../peers/provider.ts";
import type { HarnessOptions } from "../sidecar/harness.ts";
import { type Called, call, faultOf } from "../wire/proxy-call.ts";

/** `identities` of a configuration file. */
export interface Identities {
  readonly issuers?: readonly object[];
  readonly rules?: readonly object[];
}

export const configOf = (identities: Identities, more: object = {}) => JSON.stringify({ identities, ...more });

/** A sidecar whose callers need no key, with the connection `ada` of the integration `here` to a provider. */
export async function startIdentified(
  identities: Identities,
  { files = {}, env = {}, more = {}, ...options }: HarnessOptions & { readonly more?: object } = {},
): Promise<ProxiedSidecar> {
  const provider = await startProvider();
  return startProxied(provider.port, {
    ...options,
    env: { LATCHKEY_CONFIG: "/latchkey.yaml", ...env },
    files: { "/latchkey.yaml": configOf(identities, more), ...files },
  });
}

export const reload = ({ sidecar }: ProxiedSidecar, identities: Identities): Promise<void> =>
  sidecar.reload(() =>
    parseChangeable({
      path: "/new.yaml",
      env: {},
      files: { read: () => ({ text: configOf(identities), mode: 0o600 }) },
    }),
  );

/** The headers of a request to the provider, with a token or without. */
export const headersWith = (token?: string): Readonly<Record<string, string>> => ({
  "provider-config-key": "here",
  "connection-id": "ada",
  ...(token !== undefined && { authorization: `Bearer ${token}` }),
});

export const callProvider = (
  { data }: Pick<ProxiedSidecar, "data">,
  token?: string,
  more: Readonly<Record<string, string>> = {},
): Promise<Called> => call(`${data}/proxy/items`, { headers: { ...headersWith(token), ...more } });

/** The status, the code of the fault and its message. */
export function outcomeOf(called: Called): {
  readonly status: number;
  readonly code: string | undefined;
  readonly message: string;
} {
  const code = faultOf(called);
  const message = code === undefined ? "" : (JSON.parse(called.body) as { error: { message: string } }).error.message;
  return { status: called.status, code, message };
}
