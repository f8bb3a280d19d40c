import { create } from "@bufbuild/protobuf";
import { durationFromMs, durationMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { currentState, isOpen } from "../../core/approvals/approval-state.ts";
import { digestOfRequest, type HeldRequest } from "../../core/approvals/held-request.ts";
import { requesterName, requesterText } from "../../core/approvals/requester.ts";
import type { PolicyRule } from "../../core/policies/policy-rule.ts";
import {
  type Approval,
  type ApprovalContent,
  type ApprovalRequester,
  ApprovalSchema,
  ApprovalState,
} from "../../gen/latchkey/v1/approval_pb.ts";
import type { Connection } from "../../gen/latchkey/v1/connection_pb.ts";
import type { Change, Condition, Store } from "../../store/contract.ts";
import { type Records, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { closing } from "./approval-changes.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import { approvalFault, mismatchFault, usedFault } from "./approval-faults.ts";
import { maxWaiting, takenSlot, tooManyWait } from "./approval-slots.ts";
import { type AnswerWait, waitForAnswer } from "./approval-wait.ts";
import type { ApprovalWatch } from "./approval-watch.ts";
import { memoryFingerprint, requestFingerprint } from "./fingerprints.ts";

/** A request that policies hold, and who sends it. */
export interface ApprovalQuestion {
  readonly request: HeldRequest;
  readonly requester: ApprovalRequester;
  /** The policies that hold it; at least one. */
  readonly rules: readonly PolicyRule[];
  /** Name of the provider. */
  readonly provider: string;
  /** Returns what a person is shown. Called if a person is asked. */
  readonly content: () => ApprovalContent;
  /** URL without secrets of the connection. */
  readonly shownUrl: string;
  /** The tool that is called, at an MCP server or at our own endpoint; empty: none. */
  readonly tool: string;
  /** ID of the approval that the caller names; empty: none. */
  readonly named: string;
}

/** What is known about a held request. `remembered`: an earlier answer covers it. */
export type ApprovalAnswer = { readonly kind: "remembered" | "asked"; readonly approval: Approval };

/** Asks people about held requests, and lets each approved one be sent once. */
export interface ApprovalRequests {
  /** Returns the approval of a request; a person is asked unless an equal request of the requester waits already. */
  ask(question: ApprovalQuestion): Promise<ApprovalAnswer>;
  /** Resolves once the approval is answered, has expired or `signal` is aborted, with the approval as it is then. */
  settled(approval: Approval, wait: AnswerWait): Promise<Approval>;
  /** Marks an approval as used, in the store: call it before the first byte is sent. Throws if it cannot be used. */
  use(approval: Approval): Promise<void>;
}

interface ApprovalRequestsOptions {
  readonly store: Store;
  readonly collections: ApprovalCollections & { readonly connections: Records<Connection> };
  readonly watch: ApprovalWatch;
  readonly audit: Audit;
  readonly events: Pick<Events, "approval">;
  readonly world: World;
}

export function createApprovalRequests(options: ApprovalRequestsOptions): ApprovalRequests {
  const { store, collections, watch, audit, events, world } = options;
  const { approvals, approvalContents, openApprovals, rememberedApprovals } = collections;
  const count = (result: "asked" | "joined" | "remembered" | "used") => world.metrics.approvals.inc({ result });

  async function named(id: string, { request, requester }: ApprovalQuestion): Promise<Approval> {
    const found = namesNothing(id) ? undefined : await approvals.get(request.environment, id);
    const isOwn = found?.value.requester && requesterText(found.value.requester) === requesterText(requester);
    if (found === undefined || isOwn !== true) throw new Fault("not_found", "there is no such approval");
    if (found.value.digest !== digestOfRequest(request)) throw mismatchFault(found.value);
    return found.value;
  }

  async function remembered(wanted: Approval): Promise<Approval | undefined> {
    const memory = await rememberedApprovals.get(wanted.environment, memoryFingerprint(wanted));
    if (memory === undefined || memory.value.untilMs <= world.now()) return undefined;
    return (await approvals.get(wanted.environment, memory.value.approvalId))?.value;
  }

  async function creation(wanted: Approval, { content, provider }: ApprovalQuestion): Promise<Change[]> {
    const { environment, id, connection } = wanted;
    // Usually right, and reads nothing; the slots decide.
    if (watch.waiting(environment) >= maxWaiting) throw tooManyWait();
    return [
      ...(await takenSlot(collections, wanted)),
      ...approvals.added(wanted),
      ...approvalContents.added(create(ApprovalSchema, { environment, id, content: content() })),
      ...audit.changes({
        actor: actorOf(wanted),
        action: "approval.request",
        environment,
        targets: [id, `${connection?.integration}/${connection?.id}`],
      }),
      ...events.approval({ operation: "requested", approval: wanted, provider }),
    ];
  }

  return {
    async ask(question) {
      const own = question.named === "" ? undefined : await named(question.named, question);
      if (own !== undefined && covers(own, question)) return { kind: "asked", approval: own };
      const wanted = newApproval(question, world.now());
      const { environment } = wanted;
      // What a person said about one user says nothing about another.
      const known = question.request.subject === undefined ? await remembered(wanted) : undefined;
      if (known !== undefined) {
        count("remembered");
        return { kind: "remembered", approval: known };
      }
      const fingerprint = requestFingerprint(wanted);
      const { result, revision } = await transact(store, async () => {
        const open = await openApprovals.get(environment, fingerprint);
        const found = open && (await approvals.get(environment, open.value.approvalId));
        if (found !== undefined && isOpen(found.value, world.now()) && covers(found.value, question)) {
          return { changes: [], result: found.value };
        }
        const after = {
          $typeName: "latchkey.stored.v1.OpenApproval" as const,
          environment,
          fingerprint,
          approvalId: wanted.id,
        };
        return {
          changes: [...openApprovals.change({ before: open, after }), ...(await creation(wanted, question))],
          conditions: await connectionStays(collections, wanted),
          result: wanted,
        };
      });
      count(revision === 0 ? "joined" : "asked");
      return { kind: "asked", approval: result };
    },
    settled: (approval, wait) => waitForAnswer({ approvals, watch, world }, approval, wait),
    async use({ environment, id }) {
      await transact(store, async () => {
        const before = await approvals.get(environment, id);
        if (before === undefined) throw new Fault("not_found", "there is no such approval");
        const nowMs = world.now();
        if (currentState(before.value, nowMs) === ApprovalState.USED) throw usedFault(before.value);
        if (currentState(before.value, nowMs) !== ApprovalState.APPROVED) throw approvalFault(before.value, nowMs);
        const after = { ...before.value, state: ApprovalState.USED, usedAt: timestampFromMs(nowMs) };
        return {
          changes: [
            ...approvals.change({ before, after }),
            ...(await closing(collections, after)),
            ...audit.changes({
              actor: actorOf(after),
              action: "approval.use",
              environment,
              targets: [id],
            }),
          ],
          result: undefined,
        };
      });
      count("used");
    },
  };
}

/**
 * An approval must not outlive its connection: one that is deleted meanwhile gets no further approval. Some of our own
 * MCP tools act on no connection.
 */
async function connectionStays(
  { connections }: Pick<ApprovalRequestsOptions["collections"], "connections">,
  { connection: ref }: Approval,
): Promise<Condition[]> {
  if (ref === undefined || ref.id === "") return [];
  const { environment, integration, id } = ref;
  const found = await connections.get(environment, integration, id);
  if (found !== undefined) return [connections.unchanged(found)];
  const missing = { kind: "connection", name: id, environment, integration } as const;
  throw new Fault("unknown_connection", `there is no connection "${id}" of "${integration}"`, { missing });
}

function newApproval({ request, requester, rules, shownUrl, tool }: ApprovalQuestion, nowMs: number): Approval {
  const { environment, integration, connection, method } = request;
  const answerWithinMs = Math.min(...rules.map(({ hold }) => hold.answerWithinMs));
  const memoryMs = Math.min(...rules.map(({ hold }) => hold.rememberMs));
  return create(ApprovalSchema, {
    id: randomId(),
    environment,
    policies: rules.map(({ id, description }) => ({ id, description })),
    requester,
    connection: { environment, integration, id: connection },
    method,
    url: shownUrl,
    tool,
    digest: digestOfRequest(request),
    state: ApprovalState.WAITING,
    createdAt: timestampFromMs(nowMs),
    expiresAt: timestampFromMs(nowMs + answerWithinMs),
    answerWithin: durationFromMs(answerWithinMs),
    ...(memoryMs > 0 && { longestMemory: durationFromMs(memoryMs) }),
  });
}

/** Returns whether a person was asked for each policy that holds the request now. */
const covers = ({ policies }: Approval, { rules }: ApprovalQuestion): boolean =>
  rules.every((rule) => policies.some(({ id }) => id === rule.id));

/** Returns the requester for the audit trail. */
function actorOf({ requester }: Approval): string {
  if (requester === undefined) return "";
  return requester.key === "" ? requesterName(requester) : requester.key;
}

export const answerWithinMs = ({ answerWithin }: Approval): number =>
  answerWithin === undefined ? 0 : durationMs(answerWithin);
