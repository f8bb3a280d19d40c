import { BlockList, isIP } from "node:net";
import type { Mistake } from "../../base/fault.ts";
import type { AccessAudience } from "../../gen/latchkey/v1/access_session_pb.ts";

/** What a connection shows of the caller. */
export interface CallerOrigin {
  /** Name of the listener that has accepted the connection. */
  readonly listener: string;
  /** Address of the peer; undefined for a Unix socket. */
  readonly address: string | undefined;
  /** Returns the names in the client certificate that the listener has verified. */
  readonly certificateNames: () => readonly string[];
  /** The connection is that of an edge, which has relayed the request of its own caller. */
  readonly isRelayed: boolean;
}

export type AudienceRefusal = "listener" | "address" | "client certificate" | "service account" | "relay";

/** From where a caller may come, compiled. */
export interface CallerAudience {
  readonly given: AccessAudience;
  /** Returns what does not fit; undefined: everything fits. */
  refusalOf(origin: CallerOrigin): AudienceRefusal | undefined;
}

/** Compiles an audience. Returns undefined if everybody belongs to it. */
export function compileAudience(given: AccessAudience | undefined): CallerAudience | undefined {
  if (given === undefined) return undefined;
  const { listeners, addresses, certificateNames, serviceAccounts } = given;
  if (listeners.length + addresses.length + certificateNames.length + serviceAccounts.length === 0) return undefined;
  const networks = new BlockList();
  for (const text of addresses) addNetwork(networks, text);
  const names = new Set(certificateNames);
  return {
    given,
    refusalOf(origin) {
      if (origin.isRelayed) return "relay";
      if (listeners.length > 0 && !listeners.includes(origin.listener)) return "listener";
      if (addresses.length > 0 && !isWithin(networks, origin.address)) return "address";
      if (names.size > 0 && !origin.certificateNames().some((name) => names.has(name))) return "client certificate";
      // A request with a session's token proves no service account. For an edge, which does, its broker checks this.
      return serviceAccounts.length > 0 ? "service account" : undefined;
    },
  };
}

/** Returns all mistakes in an audience, with their places. */
export function mistakesInAudience({
  listeners,
  addresses,
  certificateNames,
  serviceAccounts,
}: AccessAudience): Mistake[] {
  const found: Mistake[] = [];
  const check = (field: string, list: readonly string[], isRight: (text: string) => boolean, message: string) => {
    for (const [i, text] of list.entries()) if (!isRight(text)) found.push({ path: [field, String(i)], message });
  };
  const forms = { listener: /^[a-z][a-z0-9-]{0,62}$/, name: /^(?:URI|DNS|CN|IP Address):.{1,250}$/ };
  check("listeners", listeners, (text) => forms.listener.test(text), "must be the name of a listener, such as data");
  check("addresses", addresses, isNetwork, "must be an address or a network, such as 10.0.0.0/8");
  check("certificate_names", certificateNames, (text) => forms.name.test(text), "must begin with URI:, DNS: or CN:");
  const isAccount = (text: string) => /^system:serviceaccount:[a-z0-9-]{1,63}:[a-z0-9.-]{1,253}$/.test(text);
  check("service_accounts", serviceAccounts, isAccount, "must be system:serviceaccount:<namespace>:<name>");
  return found;
}

function isNetwork(text: string): boolean {
  try {
    return addNetwork(new BlockList(), text);
  } catch {
    return false;
  }
}

/** Returns false, or throws, for a text that names no network. */
function addNetwork(networks: BlockList, text: string): boolean {
  const [, address = "", prefix] = /^([0-9A-Fa-f.:]+)(?:\/(\d{1,3}))?$/.exec(text) ?? [];
  const version = isIP(address);
  if (version === 0) return false;
  const family = version === 4 ? "ipv4" : "ipv6";
  if (prefix === undefined) networks.addAddress(address, family);
  else networks.addSubnet(address, Number(prefix), family);
  return true;
}

function isWithin(networks: BlockList, address: string | undefined): boolean {
  // A listener for both versions shows IPv4 callers as `::ffff:10.0.0.1`.
  const plain = address?.replace(/^::ffff:(?=\d+\.)/i, "").replace(/%.*$/, "") ?? "";
  const version = isIP(plain);
  return version !== 0 && networks.check(plain, version === 4 ? "ipv4" : "ipv6");
}
