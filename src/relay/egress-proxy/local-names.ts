/**
 * Endings of names that no public DNS has (RFC 6761, RFC 6762, RFC 8375, RFC 9476 and ICANN's `internal`), and those
 * that private networks and Kubernetes use.
 */
const endings = [
  ...["localhost", "local", "internal", "invalid", "test", "example", "onion", "alt", "home.arpa"],
  ...["localdomain", "lan", "intranet", "private", "corp", "home", "svc", "cluster.local"],
];

/** Reports whether a name is obviously one of a private network. Names without a dot are. */
export const isLocalName = (host: string): boolean =>
  !host.includes(".") || endings.some((ending) => host.endsWith(`.${ending}`));
