import type { Server } from "node:net";
import { type ConnectionLimit, createConnectionLimit } from "../base/http/connection-limit.ts";
import { createDoorGuard, type DoorGuard } from "../base/http/door-guard.ts";
import { describeListener, type ListenAddress, listen, type UnixAddress } from "../base/http/listener.ts";
import { fitOpenFiles, openFilesLimit } from "../base/http/open-files.ts";
import { certificateEndMs } from "../base/http/tls.ts";
import type { World } from "../base/world.ts";
import type { Config } from "../config/config.ts";
import type { DoorConfig, DoorName } from "../config/doors.ts";
import type { Door } from "../data-plane/server/door.ts";
import { createAllowedHosts, type HostsConfig, ownOrigins } from "./hosts.ts";
import { StartFailure } from "./start-failure.ts";

/** The open ports of the process: their addresses, what they admit, and the order in which they drain. */
export interface Listeners {
  /** Addresses that the listeners listen on, as a client writes them. */
  readonly addresses: Readonly<Record<DoorName, string | undefined>>;
  /** Addresses of the aliases that have a listener of their own. */
  readonly aliases: Readonly<Record<string, string>>;
  /** The configured public URL; by default the address of the listener that browsers reach. */
  publicUrl(): string;
  /** Checks the host and origin of requests. With `pagesOf`, the pages of that listener may call it, too. */
  guard(pagesOf?: DoorName): DoorGuard;
  /** Does the same for a listener whose pages are used under every served host, behind a load balancer as well. */
  dashboardGuard(door: DoorName): DoorGuard;
  connectionLimit(name: DoorName): ConnectionLimit;
  open(name: DoorName, config: DoorConfig, door: ListenerDoor): Promise<void>;
  openAlias(name: string, address: ListenAddress, door: ListenerDoor): Promise<void>;
  /** Opens the Unix socket of an identity. */
  openIdentity(address: UnixAddress, door: ListenerDoor): Promise<void>;
  /** Makes clients reconnect, which leads them to another instance. Streams and requests are cut when their time is over. */
  leave(grace: GracePeriod): void;
  /** Accepts no more connections, except for probes; resolves when the requests in progress have been answered. */
  drain(): Promise<void>;
  /** Destroys every connection, and stops answering probes. */
  close(): Promise<void>;
}

/** The part of a door that a listener uses. */
export interface ListenerDoor extends Pick<Door, "drain" | "destroy">, Partial<Pick<Door, "leave" | "endStreams">> {
  readonly server: Server;
}

type GracePeriod = Pick<Config, "graceMs" | "streamGraceMs">;

interface OpenListener {
  readonly name: ListenerName;
  readonly door: ListenerDoor;
}

type ListenerName = DoorName | `alias ${string}` | `socket ${string}`;

const doorNames = ["data", "public", "control", "ops", "ui", "forwardProxy"] as const;

/** Listeners that are not there are undefined. */
export interface ListenersConfig extends HostsConfig, Pick<Config, "limits"> {
  readonly doors: Readonly<Partial<Record<DoorName, DoorConfig | undefined>>>;
}

export function createListeners(config: ListenersConfig, world: World): Listeners {
  const { doors, limits } = config;
  const { log, metrics } = world;
  const addresses: Record<DoorName, string | undefined> = {
    data: undefined,
    public: undefined,
    control: undefined,
    ops: undefined,
    ui: undefined,
    forwardProxy: undefined,
  };
  const aliases: Record<string, string> = {};
  const publicUrl = () => config.publicUrl ?? addresses.public ?? addresses.data ?? "";
  const hosts = createAllowedHosts(config, publicUrl);
  let opened: readonly OpenListener[] = [];
  let timers: readonly NodeJS.Timeout[] = [];
  const maxConnections = fitOpenFiles(limits.connections, openFilesLimit());
  for (const door of doorNames) {
    const [wanted, max] = [limits.connections[door], maxConnections[door]];
    if (max < wanted && config.doors[door] !== undefined)
      log.info("fewer connections than configured: raise the limit of open files (ulimit -n)", { door, wanted, max });
  }

  async function open(name: ListenerName, { address, tls }: DoorConfig, door: ListenerDoor): Promise<string> {
    try {
      await listen(door.server, address);
    } catch (cause) {
      const at = address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
      throw new StartFailure(`the ${name} listener cannot use ${at}: ${(cause as Error).message}`, { cause });
    }
    const at = describeListener(door.server, tls !== undefined);
    opened = [...opened, { name, door }];
    if (tls !== undefined) metrics.certificateEnds.set({ door: name }, certificateEndMs(tls) / 1_000);
    log.info("listening", { door: name, address: at });
    return at;
  }

  return {
    addresses,
    aliases,
    publicUrl,
    guard: (pagesOf) => createDoorGuard({ hosts, ...(pagesOf && { origins: () => ownOrigins(addresses[pagesOf]) }) }),
    dashboardGuard: (door) => {
      // A load balancer in front of a listener without TLS may speak TLS with the browser.
      const ownHostSchemes = doors[door]?.tls === undefined ? ["http", "https"] : ["https"];
      return createDoorGuard({ hosts, origins: () => ownOrigins(addresses[door]), ownHostSchemes });
    },
    connectionLimit: (door) =>
      createConnectionLimit({
        door,
        max: maxConnections[door],
        world,
        isShared: door === "public",
        isTls: doors[door]?.tls !== undefined,
      }),
    async open(name, at, door) {
      addresses[name] = await open(name, at, door);
    },
    async openAlias(name, address, door) {
      aliases[name] = await open(`alias ${name}`, { address, tls: undefined }, door);
    },
    async openIdentity(address, door) {
      await open(`socket ${address.path}`, { address, tls: undefined }, door);
    },
    leave({ graceMs, streamGraceMs }) {
      const cut = () => {
        log.warn("the grace period is over; requests still in progress are cut off");
        for (const { door } of opened) door.destroy();
      };
      const endStreams = () => {
        for (const { door } of opened) door.endStreams?.();
      };
      timers = [setTimeout(cut, graceMs), setTimeout(endStreams, streamGraceMs)];
      for (const { door } of opened) door.leave?.();
    },
    async drain() {
      const probes = opened.filter(({ name }) => name === "ops");
      await Promise.all(opened.map(({ name, door }) => name !== "ops" && door.drain()));
      for (const timer of timers) clearTimeout(timer);
      opened = probes;
    },
    async close() {
      for (const { door } of opened) door.destroy();
      await Promise.all(opened.map(({ door }) => door.drain()));
    },
  };
}
