import { setTimeout as sleep } from "node:timers/promises";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import type { Store } from "../../../store/contract.ts";
import { createLeases } from "../../../store/leases.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import type { AuthorizationCollections } from "../authorization-collections.ts";
import type { AuthorizationContexts } from "../authorize/authorization-context.ts";
import type { AuthorizedConnections } from "../authorize/authorized-connection.ts";
import type { FailedAuthorizations } from "../authorize/failed-authorizations.ts";
import { createCompleteDevice } from "./device-completion.ts";
import { createDeviceRecords } from "./device-records.ts";

/**
 * Polls providers in the background about codes that end users enter elsewhere. The pending codes are in the store, and
 * a lease decides which process polls. After a restart or the loss of a replica, another process continues within the
 * length of that lease, unnoticed by the end user. A process can lose only a response that it received and had not
 * stored yet. The code is then used up, and the next poll fails with that error.
 */
export interface DeviceWaits {
  /** Starts taking over pending codes that no process polls. Call once the providers are known. */
  resume(): void;
  /** Throws `too_many_requests` if this process polls as many codes as it may. */
  withRoom<T>(begin: () => Promise<T>): Promise<T>;
  /** Starts polling for a code, unless another process does. */
  follow(id: string): void;
  /** Waits until received responses are stored. Pending codes are left to the next process. */
  close(): Promise<void>;
}

interface DeviceWaitsOptions {
  readonly store: Store;
  readonly collections: AuthorizationCollections;
  readonly contexts: AuthorizationContexts;
  readonly authorized: AuthorizedConnections;
  readonly tokenEndpoint: TokenEndpoint;
  readonly failures: FailedAuthorizations;
  readonly world: World;
}

/** Each is polled about every 5 s: twenty requests a second, and five lease renewals a second. */
const maxAtOnce = 100;
const leaseMs = 60_000;
const renewLeaseEveryMs = 20_000;
const takeOverEveryMs = 20_000;
const closeWithinMs = 10_000;

export function createDeviceWaits(options: DeviceWaitsOptions): DeviceWaits {
  const { store, collections, world } = options;
  const leases = createLeases(store);
  const waits = new Map<string, Promise<void>>();
  const ended = new AbortController();
  const records = createDeviceRecords({ store, collections });
  const complete = createCompleteDevice({ ...options, records, signal: ended.signal });
  let beginning = 0;
  let isTakingOver = false;
  let timer: NodeJS.Timeout | undefined;

  const hasRoom = () => waits.size + beginning < maxAtOnce;

  /** Takes over pending codes of a process that is gone. */
  async function takeOver(): Promise<void> {
    if (isTakingOver) return;
    isTakingOver = true;
    try {
      for (const id of await records.waiting(2 * maxAtOnce)) if (hasRoom()) follow(id);
    } catch (err) {
      if (!ended.signal.aborted) world.log.warn("could not poll pending device authorizations; will retry", { err });
    } finally {
      isTakingOver = false;
    }
  }

  function follow(id: string): void {
    if (waits.has(id) || ended.signal.aborted) return;
    const wait = completeUnderLease(id)
      .catch((err: unknown) => {
        // Usually a store failure: polling is taken up again.
        if (!ended.signal.aborted) world.log.warn("polling a device authorization failed; will retry", { err });
      })
      .finally(() => waits.delete(id));
    waits.set(id, wait);
  }

  async function completeUnderLease(id: string): Promise<void> {
    const lease = await leases.take(`device/${id}`, leaseMs);
    if (lease === undefined) return;
    const renewing = setInterval(() => {
      // After a lost lease, two processes poll. The provider slows both down, and the commit decides between them.
      lease.renew().catch((err: unknown) => world.log.debug("lease not renewed", { err }));
    }, renewLeaseEveryMs);
    try {
      const device = await records.current(id);
      if (device !== undefined) await complete(device);
    } finally {
      clearInterval(renewing);
      await lease
        .release()
        .catch((err: unknown) => world.log.debug("lease not released; it expires by itself", { err }));
    }
  }

  return {
    resume() {
      timer ??= setInterval(() => void takeOver(), takeOverEveryMs).unref();
      void takeOver();
    },
    async withRoom(begin) {
      if (!hasRoom()) {
        const message = `${maxAtOnce} device authorizations are pending, the most at a time; retry later`;
        throw new Fault("too_many_requests", message, { retryAfterSeconds: 60 });
      }
      beginning += 1;
      try {
        return await begin();
      } finally {
        beginning -= 1;
      }
    },
    follow,
    async close() {
      clearInterval(timer);
      ended.abort();
      await Promise.race([Promise.allSettled(waits.values()), sleep(closeWithinMs, undefined, { ref: false })]);
    },
  };
}
