import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Integration } from "../../gen/latchkey/v1/integration_pb.ts";
import type { HostRule, Provider } from "../../gen/latchkey/v1/provider_pb.ts";
import { filledUrl, UnboundHost } from "./filled-url.ts";

/** Where the credentials of a connection may travel. Made once for a connection, and asked for each request. */
export interface Binding {
  /** Where all paths lead; undefined: to more than one address. */
  readonly only: Address | undefined;
  /** The address of a request: the base URL's, or that of the host whose prefix fits best. */
  addressFor(path: string): Address;
  /** The address that a caller wants instead, if the credentials may travel there. */
  addressAt(baseUrl: string): Address | undefined;
  /** The same, of a whole URL: for requests in absolute form, and for where a redirect leads. */
  pathWithin(url: string): { readonly address: Address; readonly path: string } | undefined;
}

export interface Address {
  /** `https://host[:port]`, as `URL` writes it. */
  readonly origin: string;
  /** Before the caller's path; without a slash at its end. */
  readonly basePath: string;
}

interface BindingInput {
  readonly connection: Connection;
  readonly integration: Integration;
  readonly provider: Provider;
}

/** Throws `UnboundHost`. */
export function bindingOf({ connection, integration, provider }: BindingInput): Binding {
  const { proxy } = provider;
  if (proxy === undefined || proxy.baseUrl === "") throw new UnboundHost("its provider says nowhere to send requests");
  const base = addressOf(
    filledUrl(proxy.baseUrl, {
      fields: provider.connectionFields,
      config: connection.connectionConfig ?? {},
      defaults: integration.connectionDefaults,
    }),
  );
  if (base === undefined) throw new UnboundHost("its configuration makes no address");
  const hosts = addressesOf(proxy.hosts);
  // Paths belong to the provider. A host of the integration is one more address that a caller may ask for by name.
  const byPrefix = hosts.filter(({ prefix }) => prefix !== "").toSorted((a, b) => b.prefix.length - a.prefix.length);
  const named = [...hosts, ...addressesOf(integration.hosts)];
  const origins = new Set([base.origin, ...named.map(({ address }) => address.origin)]);

  return {
    only: byPrefix.length === 0 ? base : undefined,
    addressFor(path) {
      return byPrefix.find(({ prefix }) => path.startsWith(prefix))?.address ?? base;
    },
    addressAt(baseUrl) {
      const address = addressOf(baseUrl);
      return address !== undefined && origins.has(address.origin) ? address : undefined;
    },
    pathWithin(url) {
      const [, scheme = "", authority = "", rest = ""] = /^(https?):\/\/([^/?#]*)(.*)$/i.exec(url) ?? [];
      // Whoever sends a request through a proxy writes `http`, since of `https` a proxy sees no more than a tunnel.
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

/** Only what `URL` writes back as it was given: nothing folded, decoded, or hidden before an `@`. */
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
