import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { onBeat } from "../base/loop/beat.ts";
import type { ConnectionRef } from "../gen/latchkey/v1/connection_pb.ts";
import { EdgeUseSchema, UsedConnectionSchema, UsedKeySchema } from "../gen/latchkey/v1/edge_pb.ts";
import type { BrokerLink } from "./broker-link.ts";

/** Reports to the broker when connections and keys were last used. */
export interface Uses {
  connection(used: TimedUse & { readonly parts: { readonly ref: ConnectionRef } }, nowMs: number): void;
  key(used: TimedUse & { readonly caller: { readonly keyId: string } }, nowMs: number): void;
  /** Reports what is not reported yet. */
  flush(): void;
  close(): void;
}

interface TimedUse {
  /** Written only here. */
  usedAt: number;
}

/** A use is noted once a minute: as often as brokers store it. */
const stepMs = 60_000;
const flushEveryMs = 5_000;
/** `EdgeUse` takes no more at once. */
const maxReported = 10_000;

export function createUses(link: () => Pick<BrokerLink, "send">): Uses {
  const connections = new Map<ConnectionRef, number>();
  const keys = new Map<string, number>();

  function flush(): void {
    if (connections.size === 0 && keys.size === 0) return;
    const value = create(EdgeUseSchema, {
      connections: [...connections]
        .slice(0, maxReported)
        .map(([ref, at]) => create(UsedConnectionSchema, { ref, lastUsedAt: timestampFromMs(at) })),
      keys: [...keys]
        .slice(0, maxReported)
        .map(([keyId, at]) => create(UsedKeySchema, { keyId, lastUsedAt: timestampFromMs(at) })),
    });
    // While brokers are away, the times wait for the next one.
    if (!link().send({ case: "use", value })) return;
    for (const { ref } of value.connections) if (ref !== undefined) connections.delete(ref);
    for (const { keyId } of value.keys) keys.delete(keyId);
  }

  const stop = onBeat(flushEveryMs, flush);
  return {
    connection(used, nowMs) {
      if (nowMs - used.usedAt < stepMs) return;
      used.usedAt = nowMs;
      if (connections.size < maxReported) connections.set(used.parts.ref, nowMs);
    },
    key(used, nowMs) {
      if (nowMs - used.usedAt < stepMs) return;
      used.usedAt = nowMs;
      if (keys.size < maxReported) keys.set(used.caller.keyId, nowMs);
    },
    flush,
    close: stop,
  };
}
