import { Fault } from "../../base/fault.ts";
import type { Metrics } from "../../base/metrics/metrics.ts";
import { integrationName, type Rates } from "../../core/limits/rates.ts";
import {
  type Bucket,
  createTokenBuckets,
  type Rate,
  type TokenBuckets,
  takeToken,
  waitMs,
} from "../../core/limits/token-buckets.ts";
import type { ConnectionRef } from "../../gen/latchkey/v1/connection_pb.ts";

/** Limits callers to the configured rates, in this process: each of three replicas allows as much. */
export interface RateLimits {
  /** Takes a token of each bucket of a request; or throws, and takes none. Undefined while there are no rates. */
  readonly take: Take | undefined;
  /** Like `take`, but returns whether there were tokens; the caller refuses the request. */
  readonly tryTake: TryTake | undefined;
  /** Replaces the rates. Buckets stay as full as they are. */
  configure(rates: Rates | undefined): void;
  /** Drops buckets that are full again. */
  sweep(nowMs: number): void;
}

type Take = (
  keyId: string,
  connection: Pick<ConnectionRef, "environment" | "integration" | "id">,
  nowMs: number,
) => void;
type TryTake = (...request: Parameters<Take>) => boolean;
type LimitName = "per_key" | "per_integration" | "per_connection";

/** Milliseconds to wait for the key, the integration and the connection. */
type RateWaits = readonly [number, number, number];

/** A bucket takes 200 bytes, with a name of 60 characters. */
const maxBuckets = 262_144;
/** Takes a quarter of a millisecond. */
const sweptAtOnce = 4_096;

export function createRateLimits({ proxyLimited, rateBuckets }: Metrics): RateLimits {
  const keys = createTokenBuckets(maxBuckets);
  const integrations = createTokenBuckets(maxBuckets);
  const connections = createTokenBuckets(maxBuckets);
  const all: readonly (readonly [LimitName, TokenBuckets])[] = [
    ["per_key", keys],
    ["per_integration", integrations],
    ["per_connection", connections],
  ];
  let take: Take | undefined;
  let tryTake: TryTake | undefined;

  /** Returns the function that takes tokens, or returns how long to wait for them. */
  function takerFor(rates: Rates): (...request: Parameters<Take>) => RateWaits | undefined {
    const { perKey } = rates;
    const needsName =
      rates.integrations.size > 0 || rates.perIntegration !== undefined || rates.perConnection !== undefined;
    return (keyId, { environment, integration, id }, nowMs) => {
      const name = needsName ? integrationName(environment, integration) : "";
      const { perIntegration, perConnection } = rates.integrations.get(name) ?? rates;
      const ofKey = perKey && keys.of(keyId, nowMs);
      const ofIntegration = perIntegration && integrations.of(name, nowMs);
      const ofConnection = perConnection && connections.of(`${name}\0${id}`, nowMs);
      const byKey = wait(ofKey, perKey, nowMs);
      const byIntegration = wait(ofIntegration, perIntegration, nowMs);
      const byConnection = wait(ofConnection, perConnection, nowMs);
      if (byKey + byIntegration + byConnection > 0) return [byKey, byIntegration, byConnection];
      if (ofKey && perKey) takeToken(ofKey, perKey, nowMs);
      if (ofIntegration && perIntegration) takeToken(ofIntegration, perIntegration, nowMs);
      if (ofConnection && perConnection) takeToken(ofConnection, perConnection, nowMs);
      return undefined;
    };
  }

  /** Names the limit with the longest wait. */
  function refusal([byKey, byIntegration, byConnection]: RateWaits): Fault {
    const longest = Math.max(byKey, byIntegration, byConnection);
    const limit: LimitName =
      longest === byConnection ? "per_connection" : longest === byIntegration ? "per_integration" : "per_key";
    proxyLimited.inc({ limit });
    return Fault.withoutStack(
      "too_many_requests",
      `rate limit of ${limited[limit]} exceeded (${limit}); try again later`,
      {
        retryAfterSeconds: Math.ceil(longest / 1_000),
      },
    );
  }

  return {
    get take() {
      return take;
    },
    get tryTake() {
      return tryTake;
    },
    configure(rates) {
      take = undefined;
      tryTake = undefined;
      if (rates === undefined) return;
      const takeTokens = takerFor(rates);
      tryTake = (...request) => takeTokens(...request) === undefined;
      take = (...request) => {
        const waits = takeTokens(...request);
        if (waits !== undefined) throw refusal(waits);
      };
    },
    sweep(nowMs) {
      for (const [limit, buckets] of all) {
        buckets.sweep(nowMs, sweptAtOnce);
        rateBuckets.set({ limit }, buckets.size);
      }
    },
  };
}

const limited: Readonly<Record<LimitName, string>> = {
  per_key: "this key",
  per_integration: "this integration",
  per_connection: "this connection",
};

const wait = (bucket: Bucket | undefined, rate: Rate | undefined, nowMs: number): number =>
  bucket === undefined || rate === undefined ? 0 : waitMs(bucket, rate, nowMs);
