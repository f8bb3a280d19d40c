import { create } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { type LimitNotice, PassAnswerSchema, type WantedPass } from "../../gen/latchkey/v1/edge_pb.ts";
import type { StoredConnections, TimedConnection } from "../credentials/live-connections.ts";
import type { Quotas } from "../quotas/quotas.ts";
import { edgeFaultOf, refusalOf } from "./edge-fault.ts";
import type { EdgeStream } from "./edge-stream.ts";

/** Limits of providers, which brokers keep for their edges too. */
export interface EdgePasses {
  /** Answers when the request may be sent, or that it may not. */
  answer(stream: EdgeStream, wanted: WantedPass): Promise<void>;
  /** Reads what a provider's response to an edge says about its limit. */
  note(stream: EdgeStream, notice: LimitNotice): Promise<void>;
}

interface EdgePassesOptions {
  readonly live: StoredConnections;
  readonly quotas: Pick<Quotas, "enter" | "noteResponse">;
}

/** The longest time that an edge may let a request wait. */
const maxPatienceMs = 60_000;
/** Requests of one edge that may wait. */
const maxWaiting = 4_096;

export function createEdgePasses({ live, quotas }: EdgePassesOptions): EdgePasses {
  async function connectionOf(stream: EdgeStream, ref: WantedPass["ref"]): Promise<TimedConnection> {
    if (ref === undefined) throw new Error("a validated request names its connection");
    const refusal = refusalOf(stream, ref.environment);
    if (refusal !== undefined) throw refusal;
    return live.stored({ ...ref, environment: stream.edge.environment });
  }

  async function wait(stream: EdgeStream, { ref, path, isBackground, patience }: WantedPass): Promise<void> {
    if (stream.passes > maxWaiting) throw new Fault("too_many_requests", "too many requests wait for limits already");
    const patienceMs = Math.min(maxPatienceMs, Math.max(0, patience === undefined ? 0 : durationMs(patience)));
    const priority = isBackground ? "background" : "interactive";
    await quotas.enter(await connectionOf(stream, ref), { path, priority, patienceMs });
  }

  return {
    async answer(stream, wanted) {
      const { requestId } = wanted;
      stream.passes += 1;
      try {
        await wait(stream, wanted);
        stream.outbox.answer({ case: "pass", value: create(PassAnswerSchema, { requestId }) });
      } catch (error) {
        const value = create(PassAnswerSchema, { requestId, fault: edgeFaultOf(error) });
        stream.outbox.answer({ case: "pass", value });
      } finally {
        stream.passes -= 1;
      }
    },
    async note(stream, { ref, path, status, fields }) {
      // A response of a connection that is gone says nothing that is still needed.
      const found = await connectionOf(stream, ref).catch(() => undefined);
      if (found !== undefined) quotas.noteResponse(found, path, { status, fields });
    },
  };
}
