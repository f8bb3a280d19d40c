import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import type { ConnectionService } from "../../gen/latchkey/v1/connection_pb.ts";
import { callerOf } from "../server/context.ts";
import type { ConnectionCalls } from "./connection-calls.ts";

type Methods = Pick<ServiceImpl<typeof ConnectionService>, "listConnectionChoices" | "chooseConnectionValues">;

/** What can be chosen for a connection, such as one of several sites. */
export const choiceMethods = ({ authorizations }: Broker, { refOf, shown }: ConnectionCalls): Methods => ({
  async listConnectionChoices({ ref: requested }, context) {
    const ref = await refOf(callerOf(context), requested);
    return { choices: [...(await authorizations.choices.list(ref))] };
  },
  async chooseConnectionValues({ ref: requested, options }, context) {
    const caller = callerOf(context);
    const ref = await refOf(caller, requested);
    return { connection: await shown(await authorizations.choices.choose(ref, options, caller.keyId)) };
  },
});
