import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../broker/broker.ts";
import type { StoreService } from "../gen/latchkey/v1/store_pb.ts";

export const storeService = ({ storeStatus }: Broker): Pick<ServiceImpl<typeof StoreService>, "getStoreStatus"> => ({
  getStoreStatus() {
    const { backend, revision, writable, reason = "" } = storeStatus();
    return { backend, revision: BigInt(revision), writable, reason };
  },
});
