import { hostName } from "../base/http/door-guard.ts";
import type { Config } from "../config/config.ts";
import type { DoorConfig, DoorName } from "../config/doors.ts";

/** What decides which hosts are served. */
export interface HostsConfig extends Pick<Config, "allowedHosts" | "aliases" | "publicUrl"> {
  readonly doors: Readonly<Partial<Record<DoorName, Pick<DoorConfig, "address"> | undefined>>>;
}

/**
 * Returns the host names under which requests are accepted. The set is cached, because every request asks for it and
 * the public URL almost never changes.
 */
export function createAllowedHosts(config: HostsConfig, publicUrl: () => string): () => ReadonlySet<string> {
  let cached: { readonly url: string; readonly hosts: ReadonlySet<string> } | undefined;
  return () => {
    const url = publicUrl();
    if (cached?.url !== url) cached = { url, hosts: allowedHosts(config, url) };
    return cached.hosts;
  };
}

const wildcards = ["0.0.0.0", "::", "[::]"];

function allowedHosts(
  { allowedHosts: configured, doors, aliases }: HostsConfig,
  publicUrl: string,
): ReadonlySet<string> {
  const listenerHosts = [
    doors.data,
    doors.public,
    doors.control,
    doors.ops,
    doors.ui,
    doors.forwardProxy,
    ...aliases,
  ].flatMap((door) =>
    door?.address?.kind === "tcp"
      ? [door.address.host.includes(":") ? `[${door.address.host}]` : door.address.host.toLowerCase()]
      : [],
  );
  const aliasHosts = aliases.map(({ name }) => `${name}.localhost`);
  const publicHosts = URL.canParse(publicUrl) ? [hostName(new URL(publicUrl).host) ?? ""] : [];
  const all = [...(configured ?? [...listenerHosts, ...publicHosts, "localhost", "127.0.0.1", "[::1]"]), ...aliasHosts];
  // Drop wildcard hosts: a browser can be sent to 0.0.0.0 and reaches whatever listens on this machine.
  return new Set(all.filter((host) => !wildcards.includes(host)));
}

/** Origins of the pages that a listener itself serves, under the names that a browser on this machine can use. */
export function ownOrigins(address: string | undefined): ReadonlySet<string> {
  if (address === undefined || !URL.canParse(address)) return new Set();
  const { protocol, port } = new URL(address);
  return new Set([address, `${protocol}//localhost:${port}`]);
}
