import type { UnixAddress } from "../../base/http/listener.ts";
import type { AliasConfig, DoorConfig, DoorsConfig } from "../doors.ts";
import type { ConfigFile } from "../file.ts";
import type { Refuse } from "../values.ts";

interface SocketSource {
  readonly file: ConfigFile;
  readonly doors: DoorsConfig;
  readonly aliases: readonly AliasConfig[];
  readonly refuse: Refuse;
}

interface ListenersWithSockets {
  readonly doors: DoorsConfig;
  /** Data listeners for the callers of one identity each. */
  readonly identitySockets: readonly UnixAddress[];
}

/**
 * Reads the Unix sockets of rules. A rule may name the socket of the data or the control listener: then its owner and
 * mode are those of that listener.
 */
export function withIdentitySockets({ file, doors, aliases, refuse }: SocketSource): ListenersWithSockets {
  const rules = file.identities?.rules ?? [];
  const sockets = rules.flatMap(({ unix }, i) => {
    if (unix === undefined || !("socket" in unix)) return [];
    const { socket: path, owner, group, mode = "0600" } = unix;
    return [{ i, address: { kind: "unix", path, owner, group, mode: Number.parseInt(mode, 8) } as const }];
  });
  /** An edge has no control listener. */
  const named = <T extends DoorConfig | undefined>(door: T): T => {
    const address = door?.address;
    const own = address?.kind === "unix" ? sockets.find((one) => one.address.path === address.path) : undefined;
    return own === undefined ? door : { ...door, address: own.address };
  };
  const withRules = { ...doors, data: named(doors.data), control: named(doors.control) };
  const shared = pathsOf([doors.data, doors.control]);
  const taken = pathsOf([doors.public, doors.ops, doors.ui, ...aliases]);
  for (const { i, address } of sockets) {
    if (taken.has(address.path)) refuse(`identities.rules.${i}.unix.socket: is the socket of another listener`);
  }
  return {
    doors: withRules,
    identitySockets: sockets.flatMap(({ address }) => (shared.has(address.path) ? [] : [address])),
  };
}

const pathsOf = (all: readonly (Pick<AliasConfig, "address"> | undefined)[]): ReadonlySet<string> =>
  new Set(all.flatMap((one) => (one?.address?.kind === "unix" ? [one.address.path] : [])));
