import { isIP } from "node:net";
import { Fault } from "../fault.ts";

/** Checks of every listener before a request is handled. */
export interface DoorGuard {
  /** Throws for a request to another host, or from a foreign page. */
  check(head: RequestOrigin): void;
  /** Checks only the host, for routes that browsers may use. */
  checkHost(host: string | undefined): void;
  /** Returns the served host names; a new set after a change. */
  served(): ReadonlySet<string>;
  /** Checks only the page, for a request in absolute form, which uses the listener as a forward proxy. */
  checkPage(head: Omit<RequestOrigin, "host">): void;
}

export interface RequestOrigin {
  /** The `Host` header, or `:authority`. */
  readonly host: string | undefined;
  readonly origin: string | undefined;
  readonly fetchSite: string | undefined;
}

interface DoorGuardOptions {
  /** Names without ports, in lower case. If it returns undefined, no name is checked. */
  readonly hosts: () => ReadonlySet<string>;
  /** The listener's own origins, whose pages may use it. */
  readonly origins?: () => ReadonlySet<string>;
  /** Also accepts pages of the host that the request names, which the listener serves: with these schemes. */
  readonly ownHostSchemes?: readonly string[];
}

/**
 * A page of another site can make a browser send requests here: through its own name that resolves to a local address
 * (DNS rebinding), or directly to localhost. The first has a foreign `Host`, the second a foreign `Origin`.
 */
export function createDoorGuard(options: DoorGuardOptions): DoorGuard {
  const { hosts, origins = () => new Set(), ownHostSchemes = [] } = options;

  function checkPage({ origin, fetchSite }: Omit<RequestOrigin, "host">): void {
    if (origin !== undefined && origins().has(origin)) return;
    if (origin !== undefined || fetchSite === "cross-site" || fetchSite === "same-site") {
      throw new Fault("origin_not_allowed", "requests from web pages of other origins are refused");
    }
  }

  // Requests repeat the same host: parse it once.
  let lastHost: string | undefined;
  let lastName: string | undefined;

  function nameIn(host: string): string | undefined {
    if (host !== lastHost) {
      lastName = hostName(host);
      lastHost = host;
    }
    return lastName;
  }

  function checkHost(host: string | undefined): void {
    const name = host === undefined ? undefined : nameIn(host);
    if (name === undefined || !hosts().has(name)) {
      throw new Fault(
        "misdirected_request",
        "this listener does not serve the host of the Host header; add it to LATCHKEY_ALLOWED_HOSTS",
      );
    }
  }

  return {
    checkPage,
    checkHost,
    served: hosts,
    check({ host, origin, fetchSite }) {
      checkHost(host);
      const isOwnPage = fetchSite === undefined || fetchSite === "same-origin";
      if (isOwnPage && ownHostSchemes.some((scheme) => origin === `${scheme}://${host}`)) return;
      checkPage({ origin, fetchSite });
    },
  };
}

/** Returns `localhost` for `localhost:3003`, `[::1]` for `[::1]:3003`. */
export function hostName(host: string): string | undefined {
  const match = /^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(?::\d{1,5})?$/.exec(host);
  return match?.[1]?.toLowerCase();
}

/**
 * Reports whether a host is an IP address, which cannot be rebound. `0.0.0.0` and `[::]` do not count: browsers connect
 * to this machine for them.
 */
export function isAddress(host: string): boolean {
  const name = hostName(host)?.replace(/^\[|\]$/g, "") ?? "";
  return isIP(name) !== 0 && !/^[0:.]+$/.test(name);
}
