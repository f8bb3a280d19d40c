import { isIP, type LookupFunction } from "node:net";
import { forbiddenKind } from "./address.ts";
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
}

export interface ResolvedAddress {
  readonly address: string;
  readonly family: number;
}

export type ResolveHost = (host: string) => Promise<readonly ResolvedAddress[]>;

interface EgressOptions {
  readonly resolve: ResolveHost;
  /** `host:port` may be private; `http://host:port` may be private and is reached without TLS. */
  readonly allowPrivate: readonly string[];
}

export function createEgress({ resolve, allowPrivate }: EgressOptions): Egress {
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

  return {
    admit(origin) {
      const family = isIP(origin.host);
      if (family !== 0) requirePublic(origin, [{ address: origin.host, family }]);
      if (isOpen(origin)) return { ...origin, scheme: "http" };
      if (origin.scheme === "http") {
        throw new RelayFailure("address_forbidden", `${origin.host} would be reached without TLS`);
      }
      return origin;
    },
    // Check every address of the DNS answer: connection racing decides which one is dialed.
    lookupFor: (origin) => lookupBy(resolve, (addresses) => requirePublic(origin, addresses)),
  };
}

/**
 * Egress to targets that the operator configured: the operator's own application, at any address, unencrypted if the
 * URL says so. No target that came over an API uses this egress.
 */
export const createTrustedEgress = ({ resolve }: Pick<EgressOptions, "resolve">): Egress => ({
  admit: (origin) => origin,
  lookupFor: () => lookupBy(resolve, () => {}),
});

const lookupBy =
  (resolve: ResolveHost, requireAllowed: (addresses: readonly ResolvedAddress[]) => void): LookupFunction =>
  (host, options, callback) => {
    resolve(host)
      .catch((cause: NodeJS.ErrnoException) => {
        throw new RelayFailure("unknown_host", `${host} could not be resolved: ${cause.code ?? "no answer"}`, {
          cause,
        });
      })
      .then((addresses) => {
        if (addresses.length === 0) throw new RelayFailure("unknown_host", `${host} has no address`);
        requireAllowed(addresses);
        const [first] = addresses;
        if (options.all) callback(null, [...addresses]);
        else callback(null, first?.address ?? "", first?.family);
      })
      .catch((error: Error) => callback(error, []));
  };
