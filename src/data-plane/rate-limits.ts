import { Fault } from "../base/fault.ts";
import type { Metrics } from "../base/metrics.ts";
import { integrationName, type Rates } from "../core/rates.ts";
import {
  type Bucket,
  createTokenBuckets,
  type Rate,
  type TokenBuckets,
  takeToken,
  waitMs,
} from "../core/token-buckets.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";

/** Holds callers to the rates that are configured, in this process: of three replicas each gives as much. */
export interface RateLimits {
  /** Takes a token of each bucket that a request concerns, or of none and throws. Undefined while there are no rates. */
  readonly take: Take | undefined;
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
type LimitName = "per_key" | "per_integration" | "per_connection";

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

  function takeBy(rates: Rates): Take {
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
      if (byKey + byIntegration + byConnection > 0) throw refusal(byKey, byIntegration, byConnection);
      if (ofKey && perKey) takeToken(ofKey, perKey, nowMs);
      if (ofIntegration && perIntegration) takeToken(ofIntegration, perIntegration, nowMs);
      if (ofConnection && perConnection) takeToken(ofConnection, perConnection, nowMs);
    };
  }

  /** The one that takes longest is the one that the caller is told of. */
  function refusal(byKey: number, byIntegration: number, byConnection: number): Fault {
    const longest = Math.max(byKey, byIntegration, byConnection);
    const limit: LimitName =
      longest === byConnection ? "per_connection" : longest === byIntegration ? "per_integration" : "per_key";
    proxyLimited.inc({ limit });
    return Fault.withoutStack("too_many_requests", `more requests than ${ofWhat[limit]} may make (${limit})`, {
      retryAfterSeconds: Math.ceil(longest / 1_000),
    });
  }

  return {
    get take() {
      return take;
    },
    configure(rates) {
      take = rates === undefined ? undefined : takeBy(rates);
    },
    sweep(nowMs) {
      for (const [limit, buckets] of all) {
        buckets.sweep(nowMs, sweptAtOnce);
        rateBuckets.set({ limit }, buckets.size);
      }
    },
  };
}

const ofWhat: Readonly<Record<LimitName, string>> = {
  per_key: "this key",
  per_integration: "all callers of this integration together",
  per_connection: "all callers of this connection together",
};

const wait = (bucket: Bucket | undefined, rate: Rate | undefined, nowMs: number): number =>
  bucket === undefined || rate === undefined ? 0 : waitMs(bucket, rate, nowMs);
