import { setTimeout as sleep } from "node:timers/promises";
import { timestampMs } from "@bufbuild/protobuf/wkt";
import { TokenFailure, type Tokens } from "../../../auth/oauth2/tokens.ts";
import type { World } from "../../../base/world.ts";
import { type PendingDevice, PendingDeviceSchema } from "../../../gen/latchkey/stored/v1/stored_pb.ts";
import { secretValues } from "../../audit/secret-values.ts";
import type { TokenEndpoint } from "../../tokens/token-endpoint.ts";
import type { AuthorizationContext, AuthorizationContexts } from "../authorize/authorization-context.ts";
import type { AuthorizedConnections } from "../authorize/authorized-connection.ts";
import type { AuthorizationAttempt, FailedAuthorizations } from "../authorize/failed-authorizations.ts";
import { AuthorizationFailure } from "../authorize/failure.ts";
import { grantResultOf } from "../authorize/grant-result.ts";
import { pollDevice } from "./device-polls.ts";
import type { DeviceRecords } from "./device-records.ts";
import { createRetryWhileUnavailable, isStoreUnavailable } from "./store-retry.ts";

/** Polls for a device's tokens until the outcome is known, and stores the connection or the failure. */
export type CompleteDevice = (device: PendingDevice) => Promise<void>;

interface DeviceCompletionOptions {
  readonly records: DeviceRecords;
  readonly contexts: AuthorizationContexts;
  readonly authorized: AuthorizedConnections;
  readonly tokenEndpoint: TokenEndpoint;
  readonly failures: FailedAuthorizations;
  readonly world: World;
  /** Ends the polling. A request that was sent is not aborted: its response may hold the tokens, which come only once. */
  readonly signal: AbortSignal;
}

export function createCompleteDevice(options: DeviceCompletionOptions): CompleteDevice {
  const { records, contexts, authorized, tokenEndpoint, failures, world, signal } = options;
  /** A provider returns tokens only once, so storing them is repeated. */
  const retrying = createRetryWhileUnavailable({ signal, log: world.log });

  function contextOf({ begunWith: value, authorization }: PendingDevice): Promise<AuthorizationContext> {
    if (value === undefined || authorization === undefined) throw new Error("a stored device has its request");
    return contexts.of({ value, revision: 0, bytes: 0 }, authorization.integration);
  }

  const partiesOf = async (device: PendingDevice) =>
    contexts.partiesOf(await contextOf(device), device.connectionConfig ?? {});

  async function poll(device: PendingDevice): Promise<Tokens> {
    const { deviceCode, intervalMs, authorization } = device;
    const expiresAtMs = authorization?.expiresAt === undefined ? 0 : timestampMs(authorization.expiresAt);
    const tokens: Pick<TokenEndpoint, "ask"> = {
      // Reads the integration each time: its secret may have changed.
      ask: async ({ grant }) => tokenEndpoint.ask({ ...(await partiesOf(device).catch(postpone)), grant }),
    };
    const wait = (ms: number) => sleep(ms, undefined, { signal });
    const uris = { userCode: "", verificationUri: "", verificationUriComplete: "" };
    const code = { deviceCode, intervalMs, expiresAtMs, ...uris };
    return pollDevice({ tokens, now: world.now, wait }, await retrying(() => partiesOf(device)), code);
  }

  async function storeConnection(device: PendingDevice, tokens: Tokens): Promise<void> {
    if ((await records.current(device.id)) === undefined) return;
    await authorized.file(await contextOf(device), grantResultOf(tokens, device), {
      id: device.connectionId,
      alongside: (connected) => records.connectedChanges(device, connected),
    });
    world.metrics.authorizations.inc({ credentials: "oauth2", outcome: "connected" });
  }

  return async (device) => {
    try {
      const tokens = await poll(device);
      await retrying(() => storeConnection(device, tokens));
    } catch (error) {
      if (signal.aborted && isInterruption(error)) return;
      const failure = await retrying(() => failures.read(deviceFailure(error), attemptOf(device)));
      await retrying(() => records.fail(device, failure));
    }
  };
}

const attemptOf = (device: PendingDevice): AuthorizationAttempt => ({
  environment: device.authorization?.environment ?? "",
  integration: device.authorization?.integration ?? "",
  existing: device.begunWith?.reconnect,
  credentials: "oauth2",
  secrets: secretValues(PendingDeviceSchema, device),
});

/** Translates token errors into failures of a code entered elsewhere. */
function deviceFailure(error: unknown): unknown {
  if (error instanceof TokenFailure && error.kind === "grant_dead") {
    if (error.code === "access_denied")
      return new AuthorizationFailure("denied", "Access was not allowed.", error.code);
    if (error.code === "expired_token")
      return new AuthorizationFailure("expired", "The code was not entered in time. Begin again.", error.code);
  }
  return error;
}

/** Postpones the poll if the store is unavailable. */
function postpone(error: unknown): never {
  if (!isStoreUnavailable(error)) throw error;
  const reason = { kind: "passing", code: "store_unavailable", retryAfterMs: undefined } as const;
  throw new TokenFailure(reason, "the store cannot be read now", { cause: error });
}

/** Whether the error only means that this process stops, and nothing about the device. */
const isInterruption = (error: unknown): boolean =>
  (error instanceof TokenFailure && error.code === "left") || isStoreUnavailable(error);
