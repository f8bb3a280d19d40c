import { create } from "@bufbuild/protobuf";
import { type DrawnRequests, DrawnRequestsSchema, type WantedRequests } from "../../gen/latchkey/v1/edge_pb.ts";
import type { AccessBudgets } from "../access-sessions/budgets.ts";
import { type EdgeCallerSources, edgeCallerWith } from "./edge-callers.ts";
import { edgeFaultOf } from "./edge-fault.ts";
import type { EdgeStream } from "./edge-stream.ts";

/** Draws requests of budgets for edges. An edge that stops loses what it has not used. */
export type AnswerWantedRequests = (stream: EdgeStream, wanted: WantedRequests) => Promise<void>;

export const createEdgeBudgets =
  (sources: EdgeCallerSources, budgets: Pick<AccessBudgets, "draw">): AnswerWantedRequests =>
  async (stream, { requestId, digest }) => {
    const session = edgeCallerWith(sources, stream.edge, Buffer.from(digest).toString("hex"))?.session;
    let value: DrawnRequests;
    try {
      const count = session === undefined ? 0 : await budgets.draw(session.id);
      value = create(DrawnRequestsSchema, { requestId, count });
    } catch (error) {
      value = create(DrawnRequestsSchema, { requestId, fault: edgeFaultOf(error) });
    }
    stream.outbox.answer({ case: "drawn", value });
  };
