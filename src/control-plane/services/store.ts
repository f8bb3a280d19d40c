import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import type { StoreService } from "../../gen/latchkey/v1/store_pb.ts";
import { callerOf } from "../server/context.ts";

export const storeService = ({ upkeep }: Broker): ServiceImpl<typeof StoreService> => ({
  async getStoreStatus() {
    const { revision, reason = "", usedBytes, freeBytes, ...status } = await upkeep.status();
    return {
      ...status,
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
  async *scrub(_request, { signal }) {
    for await (const { checked, damaged, examples, isDone } of upkeep.scrub({ signal })) {
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
