import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import { StoreService } from "../../gen/latchkey/v1/store_pb.ts";
import { callerOf } from "../server/context.ts";

export { StoreService };

export const storeService = ({ upkeep }: Broker): ServiceImpl<typeof StoreService> => ({
  async getStoreStatus() {
    const { revision, reason = "", usedBytes, freeBytes, ...status } = await upkeep.status();
    // A store that cannot be read now still has a status.
    const { backup = undefined, scrub = undefined } = await upkeep.last().catch(() => ({}) as Record<string, never>);
    return {
      ...status,
      ...(backup && { lastBackup: untyped(backup) }),
      ...(scrub && { lastScrub: untyped(scrub) }),
      reason,
      revision: BigInt(revision),
      ...(usedBytes !== undefined && { sizeBytes: BigInt(usedBytes) }),
      ...(freeBytes !== undefined && { freeBytes: BigInt(freeBytes) }),
    };
  },
  async *backup(_request, context) {
    const { signal } = context;
    for await (const piece of upkeep.backup({ signal, actor: callerOf(context).keyId })) yield { piece };
  },
  async *scrub(_request, context) {
    const { signal } = context;
    const { keyId: actor } = callerOf(context);
    for await (const { checked, damaged, examples, isDone } of upkeep.scrub({ signal, actor })) {
      yield { checked: BigInt(checked), damaged: BigInt(damaged), examples: [...examples], done: isDone };
    }
  },
  async *reseal(_request, { signal }) {
    for await (const { done, total } of upkeep.reseal({ signal })) yield { done: BigInt(done), total: BigInt(total) };
  },
  async listSealKeys({ countValues }, { signal }) {
    const keys = await upkeep.sealKeys({ countValues, signal });
    return {
      keys: keys.map(({ id, isConfigured, dataKeys, sealedValues, isNeeded }) => ({
        id,
        configured: isConfigured,
        dataKeys,
        needed: isNeeded,
        ...(sealedValues !== undefined && { sealedValues: BigInt(sealedValues) }),
      })),
    };
  },
});

/** The stored note has the fields of the message that is sent. */
const untyped = <T extends object>(note: T): Omit<T, "$typeName" | "$unknown"> => {
  const { $typeName: _, $unknown: __, ...fields } = note as T & { $typeName?: string; $unknown?: unknown };
  return fields as Omit<T, "$typeName" | "$unknown">;
};
