import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { type Approval, ApprovalState, type WatchApprovalsResponse } from "../../../gen/latchkey/v1/approval_pb.ts";
import type { Pager } from "../../data/pager.ts";
import { isBeginning, useWatch, type WatchState } from "../../data/watch.ts";
import { approvals } from "../../state/clients.ts";

export interface LiveApprovals {
  readonly state: WatchState;
  /** New approvals that are not in the list yet, because a person reads further down. */
  readonly newCount: number;
  /** Puts the new approvals into the list. */
  show(): void;
  /** The approval that changed last: an open one is read again. */
  readonly changed: Approval | undefined;
}

interface LiveApprovalsOptions {
  readonly environment: string;
  readonly pager: Pager<Approval>;
  readonly isWanted: (approval: Approval) => boolean;
  readonly onCount: (waiting: number) => void;
  readonly isOn: boolean;
}

const settleMs = 250;
/** A list whose top is scrolled away is not moved. */
const topPx = 160;
const pageSize = 50;

/** Changes rows in place, and reads the list again if its top is seen: at most four times a second. */
export function useLiveApprovals(options: LiveApprovalsOptions): LiveApprovals {
  const fresh = useRef(new Set<string>());
  const newCount = useSignal(0);
  const changed = useSignal<Approval | undefined>(undefined);
  const planned = useRef<ReturnType<typeof setTimeout> | undefined>(undefined);
  const current = useRef(options);
  current.current = options;
  const { environment, isOn } = options;

  function show(): void {
    fresh.current.clear();
    newCount.value = 0;
    current.current.pager.reload();
  }

  function settle(): void {
    planned.current = undefined;
    const { items, isLoading } = current.current.pager;
    // Further pages that a person has opened stay.
    const isTop = window.scrollY < topPx && (items?.length ?? 0) <= pageSize;
    if (!isTop) newCount.value = fresh.current.size;
    else if (isLoading) plan();
    else show();
  }

  function plan(): void {
    planned.current ??= setTimeout(settle, settleMs);
  }

  function note(approval: Approval): void {
    const { pager, isWanted } = current.current;
    changed.value = approval;
    if (pager.items?.some(({ id }) => id === approval.id) === true) {
      const changedIn = (items: readonly Approval[]) => items.map((one) => (one.id === approval.id ? approval : one));
      pager.edit((items) => changedIn(items).filter(isWanted));
    } else if (approval.state === ApprovalState.WAITING) fresh.current.add(approval.id);
    else fresh.current.delete(approval.id);
  }

  useEffect(() => () => clearTimeout(planned.current), []);
  useEffect(() => {
    fresh.current.clear();
    newCount.value = 0;
  }, [environment]);
  const state = useWatch(
    (signal) => approvals.watchApprovals({ environment }, { signal }),
    ({ event, waiting }: WatchApprovalsResponse) => {
      current.current.onCount(waiting);
      if (event.case === "approval") note(event.value);
      // At the beginning and after a gap, what happened before is read from the list.
      if (event.case === "approval" || event.case === "gap" || isBeginning(event)) plan();
    },
    { isOn, dependencies: [environment], onReopen: plan },
  );
  return { state, newCount: newCount.value, show, changed: changed.value };
}
