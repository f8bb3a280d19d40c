import type { Broker } from "../../../broker/broker.ts";
import { approvalStatesByName } from "../../../core/approvals/approval-state.ts";
import { Scope } from "../../../gen/latchkey/v1/access_pb.ts";
import { ApprovalState } from "../../../gen/latchkey/v1/approval_pb.ts";
import type { Route, RouteAnswer } from "../../server/routes.ts";
import { inBody } from "../body-fields.ts";
import { type JsonRequest, type JsonRoute, jsonRoute, type NoFields } from "../json-route.ts";
import { inQuery } from "../query-fields.ts";
import { approvalJson } from "./approval-json.ts";

const listQuery = {
  state: inQuery.choice("waiting", "approved", "denied", "expired", "used"),
  limit: inQuery.integer({ min: 1, max: 1_000 }),
  cursor: inQuery.text,
};
const approveBody = {
  digest: inBody.boundedText(64),
  remember: inBody.integer({ min: 0, max: 86_400, fallback: 0 }),
  reason: inBody.boundedText(500),
};
const denyBody = { reason: inBody.boundedText(500) };
const read = { method: "GET", scope: Scope.UNSPECIFIED, takesLimited: true } as const;
const write = { method: "POST", scope: Scope.APPROVALS_DECIDE } as const;
const path = "/approvals";

/** Routes for approvals: requests that policies hold until a person answers. */
export const approvalRoutes: readonly JsonRoute[] = [
  jsonRoute({ ...read, path, query: listQuery, handle: listApprovals }),
  jsonRoute({ ...read, path: `${path}/:id`, handle: getApproval }),
  jsonRoute({ ...write, path: `${path}/:id/approve`, body: approveBody, handle: approve }),
  jsonRoute({ ...write, path: `${path}/:id/deny`, body: denyBody, handle: deny }),
];

async function listApprovals(
  { caller, environment, query }: JsonRequest<typeof listQuery>,
  { approvals }: Broker,
): Promise<RouteAnswer> {
  const { limit: size = 100, cursor: token } = query;
  const state = approvalStatesByName.get(query.state ?? "") ?? ApprovalState.UNSPECIFIED;
  const { items, next } = await approvals.list({ environment, state }, { size, token }, caller);
  return {
    status: 200,
    body: { approvals: items.map(approvalJson), ...(next === "" ? {} : { next_cursor: next }) },
  };
}

async function getApproval({ caller, environment, params }: JsonRequest, broker: Broker): Promise<RouteAnswer> {
  const approval = await broker.approvals.get({ environment, id: params["id"] ?? "" }, caller);
  return { status: 200, body: { data: approvalJson(approval) } };
}

async function approve(
  { caller, environment, params, body }: JsonRequest<NoFields, typeof approveBody>,
  { approvals }: Broker,
): Promise<RouteAnswer> {
  const { digest = "", remember, reason = "" } = body;
  const answer = { digest, reason, rememberMs: remember * 1_000 };
  const decider = { name: caller.keyId, keyId: caller.keyId };
  const approval = await approvals.grant({ environment, id: params["id"] ?? "" }, answer, decider);
  return { status: 200, body: { data: approvalJson(approval) } };
}

async function deny(
  { caller, environment, params, body }: JsonRequest<NoFields, typeof denyBody>,
  { approvals }: Broker,
): Promise<RouteAnswer> {
  const decider = { name: caller.keyId, keyId: caller.keyId };
  const approval = await approvals.deny(
    { environment, id: params["id"] ?? "" },
    { reason: body.reason ?? "" },
    decider,
  );
  return { status: 200, body: { data: approvalJson(approval) } };
}

/** Takes answers that the application signs. No key is needed: the signature proves the sender. */
export const signedAnswerRoutes = ({ signedAnswers }: Pick<Broker, "signedAnswers">): Route[] => [
  {
    method: "POST",
    path: "/approval-answers/:environment/:id",
    scope: undefined,
    takesBody: "raw",
    async answer({ params: { environment = "", id = "" }, received }) {
      if (received === undefined) throw new Error("a route that takes a body as it came is given it");
      const approval = await signedAnswers.answer({ environment, id }, received);
      return { status: 200, body: { data: approvalJson(approval) } };
    },
  },
];
