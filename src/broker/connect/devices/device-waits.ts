import { setTimeout as sleep } from "node:timers/promises";
import { create } from "@bufbuild/protobuf";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { TokenFailure } from "../../../auth/oauth2/tokens.ts";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import { type PendingDevice, PendingDeviceSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { type DeviceAuthorization, DeviceAuthorization_State } from "../../../gen/latchkey/v1/connect_session_pb.ts";
import { ConnectionRefSchema } from "../../../gen/latchkey/v1/connection_pb.ts";
import { type Change, StaleWrite, type Store } from "../../../store/contract.ts";
import { createLeases } from "../../../store/leases.ts";
import type { StoredRecordOf } from "../../../store/records.ts";
import { secretValues } from "../../audit/secret-values.ts";
import { faultOfStore } from "../../stored/store-fault.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import { type AuthorizationCollections, isWaiting } from "../authorization-collections.ts";
import type { AuthorizationContext, AuthorizationContexts } from "../authorize/authorization-context.ts";
import type { AuthorizedConnections, ConnectionSummary } from "../authorize/authorized-connection.ts";
import type { AuthorizationAttempt, FailedAuthorizations, FailureRecord } from "../authorize/failed-authorizations.ts";
import { AuthorizationFailure } from "../authorize/failure.ts";
import { grantResultOf } from "../authorize/grant-result.ts";
import { pollDevice } from "./device-polls.ts";

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
const takeUpEveryMs = 20_000;
const storeRetryMs = 1_000;
const closeWithinMs = 10_000;

export function createDeviceWaits(options: DeviceWaitsOptions): DeviceWaits {
  const { store, collections, contexts, authorized, tokenEndpoint, failures, world } = options;
  const { pendingDevices } = collections;
  const leases = createLeases(store);
  const waits = new Map<string, Promise<void>>();
  const ended = new AbortController();
  let beginning = 0;
  let isTakingUp = false;
  let timer: NodeJS.Timeout | undefined;

  /** Takes over pending codes of a process that is gone. */
  async function takeUp(): Promise<void> {
    if (isTakingUp) return;
    isTakingUp = true;
    try {
      const waiting = await pendingDevices.pageBy("waiting", { under: [], limit: 2 * maxAtOnce });
      for (const { value } of waiting) if (waits.size + beginning < maxAtOnce) follow(value.id);
    } catch (err) {
      if (!ended.signal.aborted) world.log.warn("devices that wait were not looked at, and will be", { err });
    } finally {
      isTakingUp = false;
    }
  }

  function follow(id: string): void {
    if (waits.has(id) || ended.signal.aborted) return;
    const wait = underLease(id)
      .catch((err: unknown) => {
        // Usually a store failure: polling is taken up again.
        if (!ended.signal.aborted) world.log.warn("a device that waits was left, and will be taken up again", { err });
      })
      .finally(() => waits.delete(id));
    waits.set(id, wait);
  }

  async function underLease(id: string): Promise<void> {
    const lease = await leases.take(`device/${id}`, leaseMs);
    if (lease === undefined) return;
    const keeping = setInterval(() => {
      // After a lost lease, two processes poll. The provider slows both down, and the commit decides between them.
      lease.renew().catch((err: unknown) => world.log.debug("a lease was not renewed", { err }));
    }, renewLeaseEveryMs);
    try {
      const found = await current(id);
      if (found !== undefined) await see(found.value);
    } finally {
      clearInterval(keeping);
      await lease.release().catch((err: unknown) => world.log.debug("a lease was not released", { err }));
    }
  }

  /** Returns undefined once the authorization has ended. */
  async function current(id: string): Promise<StoredRecordOf<PendingDevice> | undefined> {
    const found = await pendingDevices.get(id);
    return found !== undefined && isWaiting(found.value) ? found : undefined;
  }

  /** Polls until the outcome is known, and stores the outcome. */
  async function see(device: PendingDevice): Promise<void> {
    try {
      const tokens = await askOn(device);
      await stubbornly(async () => {
        if ((await current(device.id)) === undefined) return;
        const context = await groundOf(device);
        await authorized.file(context, grantResultOf(tokens, device), {
          id: device.connectionId,
          alongside: (filed) => connecting(device, filed),
        });
        world.metrics.authorizations.inc({ credentials: "oauth2", outcome: "connected" });
      });
    } catch (error) {
      if (ended.signal.aborted && isInterruption(error)) return;
      const told = await stubbornly(() => failures.read(meaning(error), failingOf(device)));
      await stubbornly(() => fail(device, told));
    }
  }

  async function askOn(device: PendingDevice) {
    const { deviceCode, intervalMs, authorization } = device;
    const expiresAtMs = authorization?.expiresAt === undefined ? 0 : timestampMs(authorization.expiresAt);
    const tokens: Pick<TokenEndpoint, "ask"> = {
      // Reads the integration each time: its secret may have changed.
      ask: async ({ grant }) => tokenEndpoint.ask({ ...(await askingOf(device).catch(passing)), grant }),
    };
    const code = {
      deviceCode,
      intervalMs,
      expiresAtMs,
      userCode: "",
      verificationUri: "",
      verificationUriComplete: "",
    };
    return pollDevice({ tokens, now: world.now, wait: pause }, await stubbornly(() => askingOf(device)), code);
  }

  /** Aborts only the pause, not a sent request: its response may hold the tokens, which come only once. */
  const pause = (ms: number) => sleep(ms, undefined, { signal: ended.signal });

  const askingOf = async (device: PendingDevice) =>
    contexts.partiesOf(await groundOf(device), device.connectionConfig ?? {});

  function groundOf({ begunWith: value, authorization }: PendingDevice): Promise<AuthorizationContext> {
    if (value === undefined || authorization === undefined) throw new Error("a stored device says what it is for");
    return contexts.of({ value, revision: 0, bytes: 0 }, authorization.integration);
  }

  /** Returns the changes that end the device authorization in the commit of its connection. */
  async function connecting(
    device: PendingDevice,
    { connectionId: id, missingScopes }: ConnectionSummary,
  ): Promise<Change[]> {
    const { environment = "", integration = "" } = device.authorization ?? {};
    const connection = create(ConnectionRefSchema, { environment, integration, id });
    const before = await current(device.id);
    if (before === undefined) throw new Fault("conflict", "the device authorization has ended");
    const state = DeviceAuthorization_State.CONNECTED;
    return endedAs(before, { state, connection, missingScopes: [...missingScopes] });
  }

  const failingOf = (device: PendingDevice): AuthorizationAttempt => ({
    environment: device.authorization?.environment ?? "",
    integration: device.authorization?.integration ?? "",
    existing: device.begunWith?.reconnect,
    credentials: "oauth2",
    secrets: secretValues(PendingDeviceSchema, device),
  });

  /** Stores the failure and its log in one commit. */
  async function fail(device: PendingDevice, { failed: { by, message }, changes, tell }: FailureRecord): Promise<void> {
    const before = await current(device.id);
    if (before === undefined) return;
    try {
      await store.commit([...endedAs(before, { state: stateOf(by), code: by, message }), ...changes()]);
    } catch (error) {
      // Another process has ended the authorization.
      if (error instanceof StaleWrite) return;
      throw error;
    }
    tell();
  }

  function endedAs(before: StoredRecordOf<PendingDevice>, outcome: DeviceOutcome): Change[] {
    const { id, connectionId, createdAt, authorization } = before.value;
    if (authorization === undefined || createdAt === undefined) throw new Error("a stored device says what it is for");
    const ending: DeviceAuthorization = { ...authorization, ...outcome };
    const after = create(PendingDeviceSchema, { id, connectionId, createdAt, authorization: ending });
    return pendingDevices.change({ before, after });
  }

  /** Retries while the store is unavailable, since a provider returns tokens only once. */
  async function stubbornly<T>(act: () => Promise<T>): Promise<T> {
    for (;;) {
      try {
        return await act();
      } catch (error) {
        if (faultOfStore(error).code !== "store_unavailable" || ended.signal.aborted) throw error;
        world.log.warn("the store does not answer a device that waits, and is asked again", { err: error });
        await pause(storeRetryMs).catch(() => {
          throw error;
        });
      }
    }
  }

  return {
    resume() {
      timer ??= setInterval(() => void takeUp(), takeUpEveryMs).unref();
      void takeUp();
    },
    async withRoom(begin) {
      if (waits.size + beginning >= maxAtOnce) {
        const message = `${maxAtOnce} device authorizations are under way, and no more at once`;
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

type DeviceOutcome = Pick<DeviceAuthorization, "state"> &
  Partial<Pick<DeviceAuthorization, "connection" | "missingScopes" | "code" | "message">>;

/** Translates token errors into failures of a code entered elsewhere. */
function meaning(error: unknown): unknown {
  if (error instanceof TokenFailure && error.kind === "grant_dead") {
    if (error.code === "access_denied")
      return new AuthorizationFailure("denied", "Access was not allowed.", error.code);
    if (error.code === "expired_token")
      return new AuthorizationFailure("expired", "Nobody entered the code in time. Begin again.", error.code);
  }
  return error;
}

const stateOf = (by: AuthorizationFailure["by"]): DeviceAuthorization_State =>
  by === "denied"
    ? DeviceAuthorization_State.DENIED
    : by === "expired"
      ? DeviceAuthorization_State.EXPIRED
      : DeviceAuthorization_State.FAILED;

/** Postpones the poll if the store is unavailable. */
function passing(error: unknown): never {
  if (faultOfStore(error).code !== "store_unavailable") throw error;
  const away = { kind: "passing", code: "store_unavailable", retryAfterMs: undefined } as const;
  throw new TokenFailure(away, "the store cannot be read now", { cause: error });
}

/** Whether the error only means that this process stops, and nothing about the device. */
const isInterruption = (error: unknown): boolean =>
  (error instanceof TokenFailure && error.code === "left") || faultOfStore(error).code === "store_unavailable";
