import { durationMs, timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import { approvalStateName, currentState } from "../../core/approvals/approval-state.ts";
import { isOwnRequest } from "../../core/approvals/requester.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type Approval, ApprovalState } from "../../gen/latchkey/v1/approval_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Events } from "../deliveries/events.ts";
import { type Caller, mayDo } from "../setup/caller.ts";
import { namesNothing } from "../stored/name-tables.ts";
import { type PageOf, type PageOptions, siftedPage } from "../stored/paging.ts";
import type { Tail, TailStep } from "../stored/tails.ts";
import { deletionOfAll, forgetting, remembering } from "./approval-changes.ts";
import type { ApprovalCollections } from "./approval-collections.ts";
import { mismatchFault } from "./approval-faults.ts";
import { answerWithinMs } from "./approval-requests.ts";
import { freedSlot } from "./approval-slots.ts";
import type { ApprovalWatch } from "./approval-watch.ts";

export interface ApprovalRef {
  readonly environment: string;
  readonly id: string;
}

/** Shows approvals and answers them. */
export interface Approvals {
  /** Without the content of requests. A caller that may not decide sees its own requests. */
  list(query: ApprovalQuery, page: PageOptions, caller: Caller): Promise<PageOf<Approval>>;
  /** New and changed approvals, from now on, as `list` shows them. */
  watch(environment: string, caller: Caller, signal: AbortSignal): AsyncGenerator<TailStep<Approval>>;
  /** With the content of the request. */
  get(ref: ApprovalRef, caller: Caller): Promise<Approval>;
  grant(ref: ApprovalRef, answer: ApprovalGrant, decider: ApprovalDecider): Promise<Approval>;
  deny(ref: ApprovalRef, answer: { readonly reason: string }, decider: ApprovalDecider): Promise<Approval>;
  /** Number of requests that wait. */
  waiting(environment: string): number;
  /** Returns the changes that delete every approval of an environment, for a commit with other deletions. */
  deletionOfAll(environment: string): Promise<Change[]>;
}

export interface ApprovalQuery {
  readonly environment: string;
  /** `UNSPECIFIED`: all. */
  readonly state: ApprovalState;
  /** ID of the access session that requests are from; empty: all. */
  readonly accessSession?: string;
}

export interface ApprovalGrant {
  /** Digest of what the person was shown; empty: not said. */
  readonly digest: string;
  /** 0: for this request alone. */
  readonly rememberMs: number;
  readonly reason: string;
}

/** The key, person or application that answers. */
export interface ApprovalDecider {
  /** A key, a person, or `webhook:` and a name. */
  readonly name: string;
  /** Compared with the key of the requester. */
  readonly keyId: string;
}

interface ApprovalsOptions {
  readonly store: Store;
  readonly collections: ApprovalCollections;
  readonly watch: ApprovalWatch;
  readonly tail: Tail;
  readonly audit: Audit;
  readonly events: Pick<Events, "approval">;
  readonly providerOf: (approval: Approval) => Promise<string>;
  readonly world: World;
}

export function createApprovals(options: ApprovalsOptions): Approvals {
  const { store, collections, watch, tail, audit, events, providerOf, world } = options;
  const { approvals, approvalContents } = collections;

  async function find({ environment, id }: ApprovalRef): Promise<StoredRecordOf<Approval>> {
    const found = namesNothing(environment, id) ? undefined : await approvals.get(environment, id);
    if (found === undefined) throw unknownApproval();
    return found;
  }

  const shown = (approval: Approval): Approval => ({ ...approval, state: currentState(approval, world.now()) });

  interface Answer {
    readonly state: typeof ApprovalState.APPROVED | typeof ApprovalState.DENIED;
    readonly reason: string;
    readonly rememberMs: number;
    readonly digest: string;
  }

  /** Commits an answer with everything that follows from it. The same answer again changes nothing. */
  async function decide(ref: ApprovalRef, answer: Answer, { name, keyId }: ApprovalDecider): Promise<Approval> {
    const { state, reason, rememberMs, digest } = answer;
    const provider = await providerOf((await find(ref)).value);
    const { result, revision } = await transact(store, async () => {
      const before = await find(ref);
      const { value } = before;
      requireOther(value, keyId);
      if (digest !== "" && digest !== value.digest) throw mismatchFault(value);
      if (!isChange(value, state, world.now())) return { changes: [], result: value };
      requireMemory(value, rememberMs);
      const after = decided(value, { ...answer, by: name, nowMs: world.now() });
      return {
        changes: [
          ...approvals.change({ before, after }),
          ...(await freedSlot(collections, value)),
          ...(state === ApprovalState.DENIED ? await forgetting(collections, value) : []),
          ...(rememberMs > 0 ? await remembering(collections, value, world.now() + rememberMs) : []),
          ...audit.changes({
            actor: name,
            action: state === ApprovalState.APPROVED ? "approval.approve" : "approval.deny",
            environment: value.environment,
            targets: [value.id],
            ...(reason !== "" && { fields: ["reason"] }),
          }),
          ...events.approval({ operation: approvalStateName(state), approval: after, provider }),
        ],
        result: after,
      };
    });
    if (revision === 0) return shown(result);
    world.metrics.approvals.inc({ result: state === ApprovalState.APPROVED ? "approved" : "denied" });
    world.log.info("an approval was answered", {
      approval: result.id,
      state: approvalStateName(state),
      by: name,
      environment: result.environment,
    });
    return shown({ ...result, revision: BigInt(revision) });
  }

  return {
    list({ environment, state, accessSession = "" }, page, caller) {
      const isDecider = mayDo(caller, Scope.APPROVALS_DECIDE);
      const index = state === ApprovalState.WAITING ? "waiting" : "created";
      return siftedPage({
        question: [
          ...["approvals", environment, state, accessSession],
          ...[isDecider ? "" : caller.keyId, caller.accessSession?.id ?? ""],
        ],
        page,
        read: async (request) => {
          const found = await approvals.pageBy(index, { under: [environment], reverse: true, ...request });
          return found.map((one) => ({ ...one, value: shown(one.value) }));
        },
        isWanted: (approval) =>
          (state === ApprovalState.UNSPECIFIED || approval.state === state) &&
          (accessSession === "" || approval.requester?.accessSession === accessSession) &&
          mayRead(approval, caller),
        isPast: () => false,
      });
    },
    watch(environment, caller, signal) {
      const isWanted = (approval: Approval) => mayRead(approval, caller);
      return changedSteps(tail(approvals, { under: [environment], isWanted, signal }), shown);
    },
    async get(ref, caller) {
      const { value } = await find(ref);
      if (!mayRead(value, caller)) throw unknownApproval();
      const content = (await approvalContents.get(ref.environment, ref.id))?.value.content;
      return { ...shown(value), ...(content && { content }) };
    },
    grant: (ref, { digest, rememberMs, reason }, decider) =>
      decide(ref, { state: ApprovalState.APPROVED, digest, rememberMs, reason }, decider),
    deny: (ref, { reason }, decider) =>
      decide(ref, { state: ApprovalState.DENIED, digest: "", rememberMs: 0, reason }, decider),
    waiting: watch.waiting,
    deletionOfAll: (environment) => deletionOfAll(collections, environment),
  };
}

const mayRead = (approval: Approval, caller: Caller): boolean =>
  mayDo(caller, Scope.APPROVALS_DECIDE) || isVisible(approval, caller);

async function* changedSteps<T>(steps: AsyncIterable<TailStep<T>>, change: (value: T) => T) {
  for await (const step of steps) yield step.kind === "put" ? { kind: step.kind, value: change(step.value) } : step;
}

const unknownApproval = () => new Fault("not_found", "there is no such approval");

/** A session sees its own requests, a key those of its sessions too. */
const isVisible = ({ requester }: Approval, caller: Caller): boolean =>
  requester !== undefined &&
  isOwnRequest(requester, caller) &&
  (caller.accessSession === undefined || requester.accessSession === caller.accessSession.id);

function requireOther({ requester }: Approval, keyId: string): void {
  if (requester === undefined || !isOwnRequest(requester, { keyId })) return;
  throw new Fault("self_approval", "a request is not answered by its own caller: send another key");
}

/** Returns whether an answer changes an approval. Throws if the approval can no longer have this answer. */
function isChange(approval: Approval, wanted: ApprovalState, nowMs: number): boolean {
  const state = currentState(approval, nowMs);
  if (state === ApprovalState.WAITING) return true;
  if (state === wanted) return false;
  // Taken back: as long as it was not used, or still lets other requests through.
  if (wanted === ApprovalState.DENIED) {
    const isRemembered = msOf(approval) > nowMs;
    if (state === ApprovalState.APPROVED || isRemembered) return true;
  }
  throw new Fault("conflict", `the approval is ${approvalStateName(state)} already`, {
    metadata: { approval: approval.id, state: approvalStateName(state) },
  });
}

const msOf = ({ rememberedUntil }: Approval): number =>
  rememberedUntil === undefined ? 0 : Number(rememberedUntil.seconds) * 1_000;

function requireMemory({ longestMemory }: Approval, rememberMs: number): void {
  const longest = longestMemory === undefined ? 0 : durationMs(longestMemory);
  if (rememberMs <= longest) return;
  const message =
    longest === 0
      ? "must be left out: the policy asks about each request"
      : `must be at most ${longest / 1_000} seconds, as the policy says`;
  throw new Fault("invalid_body", `remember ${message}`, { mistakes: [{ path: ["remember"], message }] });
}

interface DecidedBy {
  readonly state: typeof ApprovalState.APPROVED | typeof ApprovalState.DENIED;
  readonly by: string;
  readonly reason: string;
  readonly rememberMs: number;
  readonly nowMs: number;
}

function decided(approval: Approval, { state, by, reason, rememberMs, nowMs }: DecidedBy): Approval {
  const { rememberedUntil: _, ...rest } = approval;
  return {
    ...rest,
    // What was sent stays sent.
    state: approval.state === ApprovalState.USED ? ApprovalState.USED : state,
    decidedAt: timestampFromMs(nowMs),
    decidedBy: by,
    reason,
    expiresAt: timestampFromMs(nowMs + answerWithinMs(approval)),
    ...(rememberMs > 0 && { rememberedUntil: timestampFromMs(nowMs + rememberMs) }),
  };
}
