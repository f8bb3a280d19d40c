import { create } from "@bufbuild/protobuf";
import type { ServiceImpl } from "@connectrpc/connect";
import type { Broker } from "../../../broker/broker.ts";
import { compileCondition, isCondition } from "../../../core/policies/condition.ts";
import { mistakesInPolicy } from "../../../core/policies/policy-rules.ts";
import {
  type CheckPolicyResponse,
  CheckPolicyResponseSchema,
  type Policy,
  PolicyService,
} from "../../../gen/latchkey/v1/policy_pb.ts";
import { callerOf, pageOf } from "../../server/context.ts";

export { PolicyService };

export const policyService = (broker: Broker): ServiceImpl<typeof PolicyService> => {
  const { policies, environments, explainPolicies } = broker;
  return {
    async createPolicy({ policy }, context) {
      const given = required(policy);
      const caller = callerOf(context);
      const environment = await environments.of(caller, given.environment);
      return { policy: await policies.create({ ...given, environment }, caller.keyId) };
    },
    async getPolicy({ environment: requested, id }, context) {
      const environment = await environments.of(callerOf(context), requested);
      return { policy: await policies.get({ environment, id }) };
    },
    async listPolicies({ environment: requested, ...request }, context) {
      const environment = await environments.of(callerOf(context), requested);
      const { items, next } = await policies.list(environment, pageOf(request));
      return { policies: [...items], nextPageToken: next };
    },
    async updatePolicy({ policy, updateMask, expectedRevision }, context) {
      const given = required(policy);
      const caller = callerOf(context);
      const environment = await environments.of(caller, given.environment);
      const request = { policy: { ...given, environment }, paths: updateMask?.paths ?? [], expectedRevision };
      return { policy: await policies.update(request, caller.keyId) };
    },
    async deletePolicy({ environment: requested, id, expectedRevision }, context) {
      const caller = callerOf(context);
      const environment = await environments.of(caller, requested);
      await policies.delete({ environment, id, expectedRevision }, caller.keyId);
      return {};
    },
    async checkPolicy({ policy }, context) {
      const given = required(policy);
      const environment = await environments.of(callerOf(context), given.environment);
      return checkedPolicy({ ...given, environment });
    },
    async explainPolicies(request, context) {
      const caller = callerOf(context);
      const { connection } = request;
      if (connection === undefined) throw new Error("a validated request names its connection");
      const environment = await environments.of(caller, connection.environment);
      return explainPolicies({ ...request, connection: { ...connection, environment } }, caller);
    },
  };
};

function required(policy: Policy | undefined): Policy {
  if (policy === undefined) throw new Error("a validated request holds its policy");
  return policy;
}

function checkedPolicy(policy: Policy): CheckPolicyResponse {
  const condition = compileCondition(policy.condition);
  return create(CheckPolicyResponseSchema, {
    mistakes: mistakesInPolicy(policy).map(({ path, message, place }) => ({
      field: path.join("."),
      message,
      line: place?.line ?? 0,
      column: place?.column ?? 0,
    })),
    variables: isCondition(condition) ? [...condition.uses].sort() : [],
  });
}
