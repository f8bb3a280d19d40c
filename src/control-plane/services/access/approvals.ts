import { durationMs } from "@bufbuild/protobuf/wkt";
import type { HandlerContext, ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../../broker/broker.ts";
import { type Caller, mayDo } from "../../../broker/setup/caller.ts";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { ApprovalService } from "../../../gen/latchkey/v1/approval_pb.ts";
import { callerOf, pageOf } from "../../server/context.ts";
import { pauseOf } from "../../server/watch.ts";

export { ApprovalService };

export const approvalService = ({ approvals, environments }: Broker): ServiceImpl<typeof ApprovalService> => {
  async function callIn(named: string, context: HandlerContext): Promise<{ caller: Caller; environment: string }> {
    const caller = callerOf(context);
    return { caller, environment: await environments.of(caller, named) };
  }
  const deciderOf = ({ keyId }: Caller) => ({ name: keyId, keyId });

  return {
    async listApprovals({ environment: named, state, accessSession, ...request }, context) {
      const { caller, environment } = await callIn(named, context);
      const { items, next } = await approvals.list({ environment, state, accessSession }, pageOf(request), caller);
      const waiting = mayDo(caller, Scope.APPROVALS_DECIDE) ? approvals.waiting(environment) : 0;
      return { approvals: [...items], nextPageToken: next, waiting };
    },
    async *watchApprovals({ environment: named }, context) {
      const { caller, environment } = await callIn(named, context);
      const isDecider = mayDo(caller, Scope.APPROVALS_DECIDE);
      for await (const step of approvals.watch(environment, caller, context.signal)) {
        const event = step.kind === "put" ? { case: "approval" as const, value: step.value } : pauseOf(step);
        yield { event, waiting: isDecider ? approvals.waiting(environment) : 0 };
      }
    },
    async getApproval({ environment: named, id }, context) {
      const { caller, environment } = await callIn(named, context);
      return { approval: await approvals.get({ environment, id }, caller) };
    },
    async grantApproval({ environment: named, id, digest, remember, reason }, context) {
      const { caller, environment } = await callIn(named, context);
      const rememberMs = remember === undefined ? 0 : durationMs(remember);
      const answer = { digest, reason, rememberMs };
      return { approval: await approvals.grant({ environment, id }, answer, deciderOf(caller)) };
    },
    async denyApproval({ environment: named, id, reason }, context) {
      const { caller, environment } = await callIn(named, context);
      return { approval: await approvals.deny({ environment, id }, { reason }, deciderOf(caller)) };
    },
  };
};
