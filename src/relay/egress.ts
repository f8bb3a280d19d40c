import { isIP, type LookupFunction } from "node:net";
import { forbiddenKind } from "./address.ts";
import type { EgressProxy, EgressRoute, ResolvedAddress } from "./egress-proxy/egress-proxy.ts";
import { isLocalName } from "./egress-proxy/local-names.ts";
import { RelayFailure } from "./failure.ts";
import type { Origin } from "./origin.ts";

/** Decides where connections may go. Checks the address that is dialed, once for each connection. */
export interface Egress {
  /**
   * Returns the origin to dial: the same origin, or its unencrypted form where the operator configured that. Throws
   * `RelayFailure` for a forbidden origin, whatever address its name resolves to.
   */
  admit(origin: Origin): Origin;
  /** Lookup for `net.connect` and `tls.connect`: the checked addresses are the dialed ones. */
  lookupFor(origin: Origin): LookupFunction;
  /** Returns the way through the egress proxy; undefined: the origin is dialed directly. */
  routeTo(origin: Origin): EgressRoute | undefined;
}

export type { ResolvedAddress } from "./egress-proxy/egress-proxy.ts";
export type ResolveHost = (host: string) => Promise<readonly ResolvedAddress[]>;

interface EgressOptions {
  readonly resolve: ResolveHost;
  /** Undefined: everything is dialed directly. */
  readonly proxy?: EgressProxy | undefined;
  /** `host:port` may be private; `http://host:port` may be private and is reached without TLS. */
  readonly allowPrivate: readonly string[];
}

export function createEgress({ resolve, proxy, allowPrivate }: EgressOptions): Egress {
  const allowed = new Set(allowPrivate.map((entry) => entry.toLowerCase()));
  const placeOf = ({ host, port }: Origin) => `${host.includes(":") ? `[${host}]` : host}:${port}`;
  const isOpen = (origin: Origin) => allowed.has(`http://${placeOf(origin)}`);
  const isAllowed = (origin: Origin) => isOpen(origin) || allowed.has(placeOf(origin));

  function requirePublic(origin: Origin, addresses: readonly ResolvedAddress[]): void {
    if (isAllowed(origin)) return;
    for (const { address } of addresses) {
      const kind = forbiddenKind(address);
      if (kind !== undefined) {
        throw new RelayFailure("address_forbidden", `${origin.host} resolves to an address that is ${kind}`);
      }
    }
  }

  const proxyTo = (origin: Origin) => (proxy?.covers(origin) === true ? proxy : undefined);

  return {
    admit(origin) {
      const family = isIP(origin.host);
      if (family !== 0) requirePublic(origin, [{ address: origin.host, family }]);
      else if (proxyTo(origin)?.resolution === "proxy" && isLocalName(origin.host) && !isAllowed(origin)) {
        throw new RelayFailure("address_forbidden", `${origin.host} is a name of a private network`);
      }
      if (isOpen(origin)) return { ...origin, scheme: "http" };
      if (origin.scheme === "http") {
        throw new RelayFailure("address_forbidden", `${origin.host} would be reached without TLS`);
      }
      return origin;
    },
    // Check every address of the DNS answer: connection racing decides which one is dialed.
    lookupFor: (origin) =>
      lookupBy(
        (host) => resolveName(resolve, host),
        (addresses) => requirePublic(origin, addresses),
      ),
    routeTo(origin) {
      const through = proxyTo(origin);
      if (through === undefined) return undefined;
      if (through.resolution === "proxy") return { proxy: through, addresses: undefined };
      return {
        proxy: through,
        async addresses() {
          const found = await addressesOf(resolve, origin);
          requirePublic(origin, found);
          return found;
        },
      };
    },
  };
}

/**
 * Egress to targets that the operator configured: the operator's own application, at any address, unencrypted if the
 * URL says so. No target that came over an API uses this egress.
 */
export const createTrustedEgress = ({ resolve, proxy }: Omit<EgressOptions, "allowPrivate">): Egress => ({
  admit: (origin) => origin,
  lookupFor: () =>
    lookupBy(
      (host) => resolveName(resolve, host),
      () => {},
    ),
  routeTo(origin) {
    if (proxy?.covers(origin) !== true) return undefined;
    // Nothing is checked, so the name is resolved only if the proxy is to get an address.
    return { proxy, addresses: proxy.resolution === "pinned" ? () => addressesOf(resolve, origin) : undefined };
  },
});

async function addressesOf(resolve: ResolveHost, { host }: Origin): Promise<readonly ResolvedAddress[]> {
  const family = isIP(host);
  return family === 0 ? resolveName(resolve, host) : [{ address: host, family }];
}

async function resolveName(resolve: ResolveHost, host: string): Promise<readonly ResolvedAddress[]> {
  const addresses = await resolve(host).catch((cause: NodeJS.ErrnoException) => {
    const message = `${host} could not be resolved: ${cause.code ?? "no answer"}`;
    throw new RelayFailure("unknown_host", message, { cause });
  });
  if (addresses.length === 0) throw new RelayFailure("unknown_host", `${host} has no address`);
  return addresses;
}

const lookupBy =
  (
    resolve: (host: string) => Promise<readonly ResolvedAddress[]>,
    requireAllowed: (addresses: readonly ResolvedAddress[]) => void,
  ): LookupFunction =>
  (host, options, callback) => {
    resolve(host)
      .then((addresses) => {
        requireAllowed(addresses);
        const [first] = addresses;
        if (options.all) callback(null, [...addresses]);
        else callback(null, first?.address ?? "", first?.family);
      })
      .catch((error: Error) => callback(error, []));
  };
