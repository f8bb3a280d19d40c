import type { Log } from "../base/log.ts";
import type { Broker } from "../broker/broker.ts";

/** Tells probes why nothing can be stored: first by the attempts to open the store, then by the open store's status. */
export interface StoreTrouble {
  /** Sets why the store cannot be opened or used during startup; undefined when it can. */
  setObstacle(reason: string | undefined): void;
  /** Also reports the status of this broker's store. */
  follow(broker: Pick<Broker, "storeStatus">): void;
  /** Returns why nothing can be stored; undefined when nothing is wrong. */
  reason(): string | undefined;
}

export function createStoreTrouble(log: Log): StoreTrouble {
  let obstacle: string | undefined;
  let followed: Pick<Broker, "storeStatus"> | undefined;
  return {
    setObstacle(reason) {
      if (reason !== undefined && reason !== obstacle) log.warn("the store cannot be opened yet", { reason });
      obstacle = reason;
    },
    follow(broker) {
      followed = broker;
    },
    reason() {
      const status = followed?.storeStatus();
      return status?.reason ?? (status?.writable === false ? "the store takes no writes" : obstacle);
    },
  };
}
