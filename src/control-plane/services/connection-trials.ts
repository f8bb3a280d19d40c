import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../broker/broker.ts";
import { faultOfStore } from "../../broker/stored/store-fault.ts";
import {
  type ConnectionService,
  VerifyConnectionResponse_Verdict as Verdict,
} from "../../gen/latchkey/v1/connection_pb.ts";
import { callerOf } from "../server/context.ts";
import { problemOf } from "../server/errors.ts";
import type { ConnectionCalls } from "./connection-calls.ts";

type TrialMethods = Pick<
  ServiceImpl<typeof ConnectionService>,
  "refreshConnection" | "verifyConnection" | "explainRequest"
>;

const verdicts = { good: Verdict.ACCEPTED, refused: Verdict.REFUSED, unproven: Verdict.UNKNOWN } as const;

/** The methods that try out what a connection is good for. */
export const trialMethods = (
  { live, asks, explain }: Pick<Broker, "live" | "asks" | "explain">,
  { refOf, shown }: ConnectionCalls,
): TrialMethods => ({
  async refreshConnection({ ref: requested }, context) {
    const { connection } = await live.get(await refOf(callerOf(context), requested), { forceRefresh: true });
    return { connection: await shown(connection) };
  },
  async verifyConnection({ ref: requested }, context) {
    const found = await live.get(await refOf(callerOf(context), requested));
    return { verdict: verdicts[await asks.prove(found)] };
  },
  async explainRequest({ ref: requested, ...request }, context) {
    const ref = await refOf(callerOf(context), requested);
    try {
      const explained = await explain({ ref, ...request });
      return {
        ...explained,
        headerNames: [...explained.headerNames],
        injected: [...explained.injected],
        dropped: [...explained.dropped],
      };
    } catch (error) {
      // A missing connection fails the call; the reason why a request would be refused is the result of the call.
      const fault = faultOfStore(error);
      if (fault.code === "internal" || fault.status === 404 || fault.status === 503) throw fault;
      return { problem: problemOf(fault) };
    }
  },
});
