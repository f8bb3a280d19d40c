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

/** Holds callers to the rates that are configured, in this process: of three replicas each gives as much. */
export interface RateLimits {
  /** Takes a token of each bucket that a request concerns, or of none and throws. Undefined while there are no rates. */
  readonly take: Take | undefined;
  /** The same, and says whether there was one of each; whoever was told no has not been refused yet. */
  readonly tryTake: TryTake | undefined;
  /** From now on these hold. Buckets stay as full as they are. */
  configure(rates: Rates | undefined): void;
  /** Lets go of buckets that have filled up again. */
  sweep(nowMs: number): void;
}

type Take = (
  keyId: string,
  connection: Pick<ConnectionRef, "environment" | "integration" | "id">,
  nowMs: number,
) => void;
type TryTake = (...asked: Parameters<Take>) => boolean;
type LimitName = "per_key" | "per_integration" | "per_connection";

/** Of key, integration and connection, in milliseconds. */
type RateWaits = readonly [number, number, number];

/** 200 bytes each, with a name of 60 characters. */
const maxBuckets = 262_144;
/** A quarter of a millisecond's work. */
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

  /** Takes the tokens and returns nothing, or how long each of them is to be waited for. */
  function takenBy(rates: Rates): (...asked: Parameters<Take>) => RateWaits | undefined {
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

  /** The one that takes longest is the one that the caller is told of. */
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
      const taken = takenBy(rates);
      tryTake = (...asked) => taken(...asked) === undefined;
      take = (...asked) => {
        const waits = taken(...asked);
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
