import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { HostRule, Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { filledUrl, UnboundHost } from "./filled-url.ts";

/**
 * Addresses that the credentials of a connection may be sent to. Created once per connection and used for each request.
 */
export interface Binding {
  /** The only address for all paths; undefined if there are several. */
  readonly only: Address | undefined;
  /** Origins of all addresses. */
  readonly origins: ReadonlySet<string>;
  /** Returns the address of a request: the base URL, or the host with the longest matching prefix. */
  addressFor(path: string): Address;
  /** Returns the address that a caller requests instead; undefined if the credentials may not be sent there. */
  addressAt(baseUrl: string): Address | undefined;
  /** Does the same for a whole URL: for requests in absolute form, and for redirect targets. */
  pathWithin(url: string): { readonly address: Address; readonly path: string } | undefined;
}

export interface Address {
  /** `https://host[:port]`, as `URL` writes it. */
  readonly origin: string;
  /** Precedes the caller's path; has no trailing slash. */
  readonly basePath: string;
}

interface BindingInput {
  readonly connection: Connection;
  readonly integration: Integration;
  readonly provider: Provider;
}

/** Throws `UnboundHost`. */
export function bindingOf(input: BindingInput): Binding {
  const found = partialBindingOf(input);
  if (found.unbound !== undefined) throw found.unbound;
  return found.binding;
}

export interface PartialBinding {
  readonly binding: Binding;
  /** Why there is no base address: then only the other addresses can be used, and the rest throws this. */
  readonly unbound: UnboundHost | undefined;
}

/** Does the same for a connection that may still lack values, for the requests that ask for them. */
export function partialBindingOf(input: BindingInput): PartialBinding {
  try {
    return { binding: bindingWith(baseAddress(input), input), unbound: undefined };
  } catch (error) {
    if (!(error instanceof UnboundHost)) throw error;
    return { binding: bindingWith(error, input), unbound: error };
  }
}

function baseAddress({ connection, integration, provider }: BindingInput): Address {
  const { proxy } = provider;
  if (proxy === undefined || proxy.baseUrl === "") throw new UnboundHost("its provider has no base URL");
  const base = addressOf(
    filledUrl(proxy.baseUrl, {
      fields: provider.connectionFields,
      config: connection.connectionConfig ?? {},
      defaults: integration.connectionDefaults,
    }),
  );
  if (base === undefined) throw new UnboundHost("its connection_config gives no valid address");
  return base;
}

function bindingWith(base: Address | UnboundHost, { integration, provider }: BindingInput): Binding {
  const hosts = addressesOf(provider.proxy?.hosts ?? []);
  // Only the provider maps paths to hosts. A host of the integration is just another address that a caller may request
  // by name.
  const byPrefix = hosts.filter(({ prefix }) => prefix !== "").toSorted((a, b) => b.prefix.length - a.prefix.length);
  const named = [...hosts, ...addressesOf(integration.hosts)];
  const known = base instanceof UnboundHost ? [] : [base.origin];
  const origins = new Set([...known, ...named.map(({ address }) => address.origin)]);

  return {
    origins,
    only: byPrefix.length === 0 && !(base instanceof UnboundHost) ? base : undefined,
    addressFor(path) {
      const found = byPrefix.find(({ prefix }) => path.startsWith(prefix))?.address ?? base;
      if (found instanceof UnboundHost) throw found;
      return found;
    },
    addressAt(baseUrl) {
      const address = addressOf(baseUrl);
      return address !== undefined && origins.has(address.origin) ? address : undefined;
    },
    pathWithin(url) {
      const [, scheme = "", authority = "", rest = ""] = /^(https?):\/\/([^/?#]*)(.*)$/i.exec(url) ?? [];
      // Clients write `http` to send a request through a proxy: for `https`, a proxy sees only a tunnel.
      const schemes = scheme.toLowerCase() === "http" ? ["https", "http"] : ["https"];
      const address = schemes
        .map((one) => addressOf(`${one}://${authority}`))
        .find((one) => one !== undefined && origins.has(one.origin));
      if (address === undefined) return undefined;
      return { address: { ...address, basePath: "" }, path: rest.startsWith("/") ? rest : `/${rest}` };
    },
  };
}

const addressesOf = (hosts: readonly HostRule[]) =>
  hosts.flatMap(({ prefix, origin }) => {
    const address = addressOf(origin);
    return address === undefined ? [] : [{ prefix, address }];
  });

/** Accepts only what `URL` writes back unchanged: nothing normalized, decoded, or hidden before an `@`. */
function addressOf(url: string): Address | undefined {
  if (!URL.canParse(url)) return undefined;
  const { protocol, host, origin, pathname, search, hash, username, password } = new URL(url);
  if (protocol !== "https:" && protocol !== "http:") return undefined;
  if (search + hash + username + password !== "" || /[?#@\\\s]/.test(url)) return undefined;
  const written = /^https?:\/\/([^/]*)/i.exec(url)?.[1]?.toLowerCase();
  const plain = written?.replace(protocol === "https:" ? /:443$/ : /:80$/, "");
  if (host === "" || plain !== host || host.endsWith(".")) return undefined;
  return { origin, basePath: pathname.replace(/\/+$/, "") };
}
