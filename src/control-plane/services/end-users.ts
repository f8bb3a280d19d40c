import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import { EndUserService } from "../../gen/latchkey/v1/end_user_pb.ts";
import { callerOf } from "../server/context.ts";

export { EndUserService };

type EndUserMethods = ServiceImpl<typeof EndUserService>;

export const endUserService = ({
  endUsers,
  environments,
}: Pick<Broker, "endUsers" | "environments">): EndUserMethods => ({
  async deleteEndUser({ environment: requested, endUserId, keepGrant }, context) {
    const caller = callerOf(context);
    const environment = await environments.of(caller, requested);
    return { deletion: await endUsers.delete({ environment, endUserId, keepGrant }, caller.keyId) };
  },
  async getEndUserDeletion({ environment: requested, endUserId }, context) {
    const environment = await environments.of(callerOf(context), requested);
    return { deletion: await endUsers.deletionOf({ environment, endUserId }) };
  },
});
