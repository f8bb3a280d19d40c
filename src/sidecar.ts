import type { Server } from "node:net";
import { join } from "node:path";
import { createDoorGuard, hostName } from "./base/door-guard.ts";
import { describeListener, type ListenAddress, listen } from "./base/listener.ts";
import { createRareWarning } from "./base/rare-warning.ts";
import { createReadiness } from "./base/readiness.ts";
import { version } from "./base/version.ts";
import type { World } from "./base/world.ts";
import { type Broker, openBroker } from "./broker/broker.ts";
import type { Config, DoorConfig, DoorName } from "./config/config.ts";
import { createControlPlane } from "./control-plane/plane.ts";
import type { Declared } from "./core/declared.ts";
import { defaultScopes } from "./core/scopes.ts";
import { createDoor, type Door } from "./data-plane/door.ts";
import { createOpsDoor } from "./data-plane/ops.ts";
import { restRoutes } from "./data-plane/rest.ts";
import { Scope } from "./gen/latchkey/v1/access_pb.ts";
import { loadCatalogue } from "./providers/catalogue.ts";
import { openLevelStore } from "./store/level.ts";
import { openSeal } from "./store/seal.ts";

/** A running latchkey. */
export interface Sidecar {
  /** Where each door listens, as a caller writes it. */
  readonly addresses: Readonly<Record<DoorName, string | undefined>>;
  /** What the process may do with the verbs themselves: `latchkey dev` puts something there to play with. */
  readonly broker: Broker;
  /** Applies a configuration file that changed. A bad one is refused, and what was in force stays. */
  reload(read: () => Declared): Promise<void>;
  /** Finishes what is under way, within the grace period, and ends the rest. */
  stop(): Promise<void>;
}

/** The environment that is there when the configuration declares none. */
export const defaultEnvironment = "dev";

/** Starts everything: ops and control first, so that probes have an answer; the data door when all can be served. */
export async function startSidecar(config: Config, world: World): Promise<Sidecar> {
  const { doors, limits } = config;
  const { log, metrics } = world;
  const shutdown = new AbortController();
  const warn = createRareWarning(world);
  const readiness = createReadiness((phase) => {
    metrics.ready.set(phase === "ready" ? 1 : 0);
    log.info("phase", { phase });
  });
  metrics.ready.set(0);
  metrics.buildInfo.set({ version, node: process.versions.node }, 1);
  const addresses: Record<DoorName, string | undefined> = {
    data: undefined,
    public: undefined,
    control: undefined,
    ops: undefined,
  };
  const publicUrl = () => config.publicUrl ?? addresses.public ?? addresses.data ?? "";
  const hosts = () => allowedHosts(config, publicUrl());
  const opened: Closing[] = [];

  async function open(name: DoorName, { address, tls }: DoorConfig, door: Opened): Promise<void> {
    try {
      await listen(door.server, address);
    } catch (error) {
      throw new StartFailure(
        `the ${name} door cannot listen on ${describeAddress(address)}: ${(error as Error).message}`,
        { cause: error },
      );
    }
    addresses[name] = describeListener(door.server, tls !== undefined);
    opened.push({ name, door });
    log.info("listening", { door: name, address: addresses[name] });
  }

  async function closeAll(): Promise<void> {
    for (const { door } of opened) door.destroy();
    await Promise.all(opened.map(({ door }) => door.drain()));
  }

  try {
    let broker: Broker | undefined;
    const ops = createOpsDoor({ readiness, trouble: () => troubleOf(broker), tls: doors.ops.tls, world });
    await open("ops", doors.ops, ops);
    const control = createControlPlane({
      readiness,
      guard: createDoorGuard({ hosts, origins: () => ownOrigins(addresses.control) }),
      maxMessageBytes: limits.rpcMessageBytes,
      maxHeadBytes: limits.headBytes,
      maxHeadLines: limits.headLines,
      tls: doors.control.tls,
      warn,
      world,
      shutdown: shutdown.signal,
    });
    await open("control", doors.control, control);

    const store = await openLevelStore({ folder: join(config.store.folder, "store"), log, metrics });
    try {
      const seal = await openSeal({ store, keys: config.sealKeys, world });
      broker = await openBroker({ store, seal, catalogue: loadCatalogue(), publicUrl, world });
      const held = broker;
      await held.declare(withPinned(config.declared, config));

      const routes = restRoutes(held);
      const common = { access: held.access, limits, warn, world };
      const dataDoor = createDoor({
        ...common,
        name: "data",
        routes,
        guard: createDoorGuard({ hosts }),
        tls: doors.data.tls,
      });
      await open("data", doors.data, dataDoor);
      if (doors.public !== undefined) {
        const guard = createDoorGuard({ hosts });
        const publicRoutes = routes.filter(({ isPublic }) => isPublic);
        await open(
          "public",
          doors.public,
          createDoor({ ...common, name: "public", routes: publicRoutes, guard, tls: doors.public.tls }),
        );
      }
      control.open(held);
      readiness.set("ready");

      return {
        addresses,
        broker: held,
        async reload(read) {
          try {
            await held.declare(withPinned(read(), config));
            metrics.configRejected.set(0);
            log.info("the configuration file was applied");
          } catch (err) {
            metrics.configRejected.set(1);
            log.error("the configuration file is refused; what was in force stays", { err });
          }
        },
        async stop() {
          readiness.set("draining");
          shutdown.abort();
          const grace = setTimeout(() => {
            log.warn("the grace period is over; what is still under way is cut off");
            for (const { door } of opened) door.destroy();
          }, config.graceMs);
          // Probes are answered to the end: whoever drains us wants to see it.
          await Promise.all(opened.filter(({ name }) => name !== "ops").map(({ door }) => door.drain()));
          clearTimeout(grace);
          await held.close();
          await store.close();
          ops.destroy();
          await ops.drain();
          log.info("stopped");
        },
      };
    } catch (error) {
      await store.close();
      throw error;
    }
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Why latchkey cannot start, in a sentence for its operator. */
export class StartFailure extends Error {
  override readonly name = "StartFailure";
}

interface Opened extends Pick<Door, "drain" | "destroy"> {
  readonly server: Server;
}

interface Closing {
  readonly name: DoorName;
  readonly door: Opened;
}

const troubleOf = (broker: Broker | undefined): string | undefined => {
  const status = broker?.storeStatus();
  return status === undefined || status.writable ? undefined : (status.reason ?? "the store takes no writes");
};

/** The declared part with what environment variables pin: the default environment, its key, and the control key. */
function withPinned(declared: Declared, { secretKey, adminKey }: Config): Declared {
  const isDeclared = declared.environments.some(({ name }) => name === defaultEnvironment);
  const needsDefault = !isDeclared && (declared.environments.length === 0 || secretKey !== undefined);
  const environment = { name: defaultEnvironment, forwardUrl: "", secondaryForwardUrl: "", allowedOrigins: [] };
  return {
    ...declared,
    environments: needsDefault ? [...declared.environments, environment] : declared.environments,
    keys: [
      ...declared.keys,
      ...(secretKey === undefined
        ? []
        : [{ id: "secret-key", environment: defaultEnvironment, secret: secretKey, scopes: defaultScopes }]),
      ...(adminKey === undefined
        ? []
        : [{ id: "admin-key", environment: "", secret: adminKey, scopes: [Scope.ADMIN] }]),
    ],
  };
}

const wildcards = ["0.0.0.0", "::", "[::]"];

function allowedHosts({ allowedHosts: configured, doors }: Config, publicUrl: string): ReadonlySet<string> {
  const ofDoors = [doors.data, doors.public, doors.control].flatMap((door) =>
    door?.address.kind === "tcp"
      ? [door.address.host.includes(":") ? `[${door.address.host}]` : door.address.host.toLowerCase()]
      : [],
  );
  const ofPublicUrl = URL.canParse(publicUrl) ? [hostName(new URL(publicUrl).host) ?? ""] : [];
  const all = configured ?? [...ofDoors, ...ofPublicUrl, "localhost", "127.0.0.1", "[::1]"];
  // A browser can be led to 0.0.0.0, and arrives at whatever listens on this machine.
  return new Set(all.filter((host) => !wildcards.includes(host)));
}

/** Pages that the control port itself serves, by the names that a browser on this machine has for it. */
function ownOrigins(address: string | undefined): ReadonlySet<string> {
  if (address === undefined || !URL.canParse(address)) return new Set();
  const { protocol, port } = new URL(address);
  return new Set([address, `${protocol}//localhost:${port}`]);
}

const describeAddress = (address: ListenAddress): string =>
  address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
