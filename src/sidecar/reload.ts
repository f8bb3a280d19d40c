import type { World } from "../base/world.ts";
import type { Broker } from "../broker/broker.ts";
import type { FetchKeySet } from "../broker/identities/issuer-keys.ts";
import { warnOfMissingConnections } from "../config/check-aliases.ts";
import type { Changeable, Config } from "../config/config.ts";
import type { KeptConfig } from "../config/in-force.ts";
import type { DataDoors } from "./data-doors.ts";
import { declareSetup } from "./declared.ts";

interface ReloadOptions {
  /** The configuration of the start. */
  readonly config: Config;
  readonly broker: Broker;
  readonly doors: DataDoors;
  readonly inForce: KeptConfig;
  readonly fetchKeySet: FetchKeySet;
  readonly world: World;
}

/** Applies a changed configuration file. An invalid file is rejected, and the previous configuration stays in force. */
export async function applyChange(
  read: () => Changeable,
  { config, broker, doors, inForce, fetchKeySet, world }: ReloadOptions,
) {
  const { log, metrics } = world;
  try {
    const changed = read();
    await declareSetup(changed, { config, broker, log });
    broker.retain(changed.retention);
    broker.configureIdentities(changed, fetchKeySet);
    broker.configureWebhooks(changed.webhooks);
    doors.configure(changed);
    inForce.noteApplied(changed);
    metrics.configRejected.set(0);
    log.info("the configuration file was applied");
    await warnOfMissingConnections(config.aliases, { connections: broker.connections, log });
  } catch (err) {
    inForce.noteRejected(err);
    metrics.configRejected.set(1);
    log.error("the configuration file was rejected; the previous configuration stays in force", { err });
  }
}
