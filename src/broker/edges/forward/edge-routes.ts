import { create } from "@bufbuild/protobuf";
import { Fault } from "../../../base/fault.ts";
import type { World } from "../../../base/world.ts";
import type { Connection } from "../../../gen/latchkey/v1/connection_pb.ts";
import {
  type EdgeRoutes as EdgeRoutesMessage,
  EdgeRoutesSchema,
  type RouteSubject,
  type WantedRoutes,
} from "../../../gen/latchkey/v1/edge_pb.ts";
import type { HostRoutes } from "../../connections/hosts/host-routes.ts";
import type { ChangedConnection } from "../edge-connections.ts";
import { edgeFaultOf } from "../edge-fault.ts";
import type { EdgeStream } from "../edge-stream.ts";
import { createRechecks } from "../rechecks.ts";
import { isReadable, type ReadSubject } from "./read-routes.ts";
import { type FollowedSubject, FollowedSubjects, type ReadRoutes, subjectName } from "./route-subjects.ts";

/** Which connections an address has, for edges whose callers name none. */
export interface EdgeRoutes {
  /** Answers, and follows the address from then on. */
  answer(stream: EdgeStream, wanted: WantedRoutes): Promise<void>;
  drop(stream: EdgeStream, subject: RouteSubject): void;
  dropAll(stream: EdgeStream): void;
  /** The store has changed a connection; `recordOf` returns its record, and undefined if it was deleted. */
  connectionChanged(named: ChangedConnection, recordOf: () => Connection | undefined): void;
  integrationChanged(environment: string): void;
  /** Checks all that is followed: changes may have been missed. */
  allChanged(): void;
  close(): void;
}

interface EdgeRoutesOptions {
  readonly routes: Pick<HostRoutes, "isBound" | "forget">;
  readonly read: ReadSubject;
  readonly onPush: () => void;
  readonly world: World;
}

/** Addresses that one edge may follow. */
const maxSubjects = 2_000;
const checksAtOnce = 8;
/** Limits the reads of an address that changes again and again. */
const maxReads = 3;

export function createEdgeRoutes({ routes, read, onPush, world }: EdgeRoutesOptions): EdgeRoutes {
  const followed = new FollowedSubjects();

  /** Reads an address as it is now, and tells its edges if that is new. */
  async function refresh(one: FollowedSubject): Promise<ReadRoutes> {
    for (let reads = 1; ; reads += 1) {
      const { changes } = one;
      const found = await read(one);
      if (changes !== one.changes && reads < maxReads) continue;
      const before = one.known;
      followed.note(one, found);
      if (before !== undefined && !isEqual(before.message, found.message)) push(one, found);
      return found;
    }
  }

  function push({ name, streams }: FollowedSubject, { message: value }: ReadRoutes): void {
    for (const { outbox } of streams) {
      outbox.put(`routes ${name}`, { case: "routes", value });
      onPush();
    }
  }

  async function check(one: FollowedSubject): Promise<void> {
    if (one.streams.size > 0) await refresh(one);
  }

  const rechecks = createRechecks({ check, atOnce: checksAtOnce, world });
  function changed(one: FollowedSubject): void {
    one.changes += 1;
    rechecks.add(one.key, one);
  }

  /** Returns whether a change of a connection may change what is known of an address. */
  function concerns(
    { known, subject: { subject } }: FollowedSubject,
    named: ChangedConnection,
    recordOf: () => Connection | undefined,
  ): boolean | Promise<boolean> {
    const row = known?.message.routes.find(({ integration }) => integration === named.integration);
    // It is being read.
    if (known === undefined || row === undefined) return true;
    const isListed = row.ids.includes(named.id);
    const record = recordOf();
    if (record === undefined) return isListed;
    if (known.fixed.has(named.integration) || subject.case !== "origin") return !isListed && !row.hasMore;
    const bound = routes.isBound({ ...named, origin: subject.value }, record);
    return bound.then((isBound) => isBound !== isListed && !(isBound && row.hasMore));
  }

  function judge(one: FollowedSubject, named: ChangedConnection, recordOf: () => Connection | undefined): void {
    const found = concerns(one, named, recordOf);
    const act = (isConcerned: boolean) => {
      if (isConcerned) changed(one);
    };
    if (found instanceof Promise) found.then(act, () => changed(one));
    else act(found);
  }

  return {
    async answer(stream, { requestId, subject }) {
      if (subject === undefined) return;
      const refusal = refusalOf(stream, subject);
      if (refusal !== undefined) {
        const fault = edgeFaultOf(refusal);
        stream.outbox.answer({ case: "routes", value: create(EdgeRoutesSchema, { requestId, subject, fault }) });
        return;
      }
      // Followed before it is read, so that no change is missed.
      const one = followed.follow(stream, subject);
      let answer: EdgeRoutesMessage;
      try {
        answer = { ...(one.known ?? (await refresh(one))).message, requestId };
      } catch (error) {
        answer = create(EdgeRoutesSchema, { requestId, subject, fault: edgeFaultOf(error) });
      }
      stream.outbox.answer({ case: "routes", value: answer });
    },
    drop(stream, subject) {
      followed.unfollow(stream, subjectName(subject));
      stream.outbox.cancel(`routes ${subjectName(subject)}`);
    },
    dropAll(stream) {
      for (const name of [...stream.routes]) followed.unfollow(stream, name);
    },
    connectionChanged(named, recordOf) {
      for (const one of followed.ofIntegration(named.environment, named.integration)) judge(one, named, recordOf);
    },
    integrationChanged(environment) {
      routes.forget(environment);
      for (const one of followed.ofEnvironment(environment)) changed(one);
    },
    allChanged() {
      routes.forget();
      for (const one of followed.all()) changed(one);
    },
    close: rechecks.close,
  };
}

/** Returns why an edge may not follow an address. One that can never be read would be tried again and again. */
function refusalOf({ routes }: EdgeStream, subject: RouteSubject): Fault | undefined {
  if (!isReadable(subject)) {
    return new Fault("invalid_body", "`origin` must be https:// or http:// and a host in lower case");
  }
  if (routes.size < maxSubjects || routes.has(subjectName(subject))) return undefined;
  const message = `the edge follows ${maxSubjects} addresses, which is the limit; it must drop some first`;
  return new Fault("too_many_requests", message);
}

const isEqual = (one: EdgeRoutesMessage, other: EdgeRoutesMessage): boolean =>
  JSON.stringify([one.routes, one.hosts]) === JSON.stringify([other.routes, other.hosts]);
