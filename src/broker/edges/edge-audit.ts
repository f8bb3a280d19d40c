import { createLateCache } from "../../base/caches/late-cache.ts";
import { Fault } from "../../base/fault.ts";
import type { World } from "../../base/world.ts";
import type { Audit, AuditEntry } from "../audit/audit.ts";
import type { EdgeStream } from "./edge-stream.ts";

/** Writes what edges do to the audit trail: who connected, who was refused, and which credentials they got. */
export interface EdgeAudit {
  connected(stream: EdgeStream): void;
  disconnected(stream: EdgeStream): void;
  /** Notes that the edge got a connection's credentials. Repeated deliveries on the same stream are one entry. */
  delivered(stream: EdgeStream, target: string): void;
  /** Notes that the edge got a server certificate for a host. */
  certified(stream: EdgeStream, host: string): void;
  refused(refusal: EdgeRefusal): void;
  close(): Promise<void>;
}

/** A call of an edge that was refused. */
export interface EdgeRefusal {
  /** ID of the key, or the proven name; undefined: nothing is proven. */
  readonly identity: string | undefined;
  readonly error: unknown;
  /** Address of the client. */
  readonly peer: string;
}

interface EdgeAuditOptions {
  readonly audit: Pick<Audit, "noteAll">;
  readonly world: World;
}

/** Entries wait for so long, so that a thousand edges that connect at once cause few commits. */
const writeAfterMs = 500;
const maxWaiting = 10_000;
const entriesPerCommit = 500;
const targetsPerEntry = 100;
/** The same refusal is one entry in this time; all refusals together have a limit for each minute. */
const refusalAgainMs = 600_000;
const refusalsPerMinute = 60;
/** A stream of the same process that follows within this time continues the one before. */
const successorMs = 60_000;

export function createEdgeAudit(options: EdgeAuditOptions): EdgeAudit {
  const writer = createAuditWriter(options);
  const visits = createVisits(writer.add);
  return {
    connected: visits.begin,
    disconnected: visits.end,
    delivered: writer.deliver,
    certified({ edge: { identity: actor, environment, id, proof } }, host) {
      writer.add({ actor, action: "edge.certify", environment, targets: [id, host], fields: [proof] });
    },
    refused: createRefusals(writer.add, options.world),
    async close() {
      visits.close();
      await writer.close();
    },
  };
}

type AddEntry = (entry: AuditEntry) => void;

/** Writes entries of a moment together, and again after the store was away. */
function createAuditWriter({ audit, world }: EdgeAuditOptions) {
  const waiting: AuditEntry[] = [];
  const deliveries = new Map<EdgeStream, string[]>();
  let lost = 0;
  let timer: NodeJS.Timeout | undefined;
  let writing: Promise<void> | undefined;

  function schedule(): void {
    timer ??= setTimeout(() => void write(), writeAfterMs).unref();
  }

  function collectDeliveries(): void {
    for (const [{ edge }, targets] of deliveries) {
      for (let at = 0; at < targets.length; at += targetsPerEntry) {
        const { identity: actor, environment, proof } = edge;
        const some = targets.slice(at, at + targetsPerEntry);
        waiting.push({ actor, action: "edge.deliver", environment, targets: [edge.id, ...some], fields: [proof] });
      }
    }
    deliveries.clear();
  }

  function write(): Promise<void> {
    clearTimeout(timer);
    timer = undefined;
    writing = (writing ?? Promise.resolve()).then(writeWaiting);
    return writing;
  }

  async function writeWaiting(): Promise<void> {
    collectDeliveries();
    try {
      while (waiting.length > 0) {
        const some = waiting.slice(0, entriesPerCommit);
        await audit.noteAll(some);
        waiting.splice(0, some.length);
      }
    } catch (err) {
      world.log.debug("could not write the audit trail of edges; will retry", { err });
      lost += Math.max(0, waiting.length - maxWaiting);
      waiting.length = Math.min(waiting.length, maxWaiting);
      schedule();
    }
    reportLost();
  }

  function reportLost(): void {
    if (lost === 0) return;
    world.log.error("the store was away for too long; audit entries of edges are lost", { count: lost });
    lost = 0;
  }

  return {
    add(entry: AuditEntry) {
      if (waiting.length < maxWaiting) waiting.push(entry);
      else lost += 1;
      schedule();
    },
    deliver(stream: EdgeStream, target: string) {
      const targets = deliveries.get(stream) ?? [];
      if (targets.length === 0) deliveries.set(stream, targets);
      targets.push(target);
      schedule();
    },
    async close() {
      await write();
      clearTimeout(timer);
      lost += waiting.length;
      reportLost();
    },
  };
}

/** Notes when processes come and go. A stream that replaces another one of its process is no news. */
function createVisits(add: AddEntry) {
  const open = new Map<string, { count: number; readonly stream: EdgeStream }>();
  let isClosed = false;
  const leaving = new Map<string, { readonly timer: NodeJS.Timeout; readonly entry: AuditEntry }>();

  const processOf = ({ edge }: EdgeStream) => `${edge.id}\0${edge.identity}\0${edge.environment}`;

  const entryOf = ({ edge }: EdgeStream, action: string): AuditEntry => ({
    actor: edge.identity,
    action,
    environment: edge.environment,
    targets: [edge.id, edge.host],
    fields: [edge.proof],
  });

  return {
    begin(stream: EdgeStream) {
      const name = processOf(stream);
      const known = open.get(name);
      if (known !== undefined) known.count += 1;
      else open.set(name, { count: 1, stream });
      const left = leaving.get(name);
      clearTimeout(left?.timer);
      leaving.delete(name);
      if (known === undefined && left === undefined) add(entryOf(stream, "edge.connect"));
    },
    end(stream: EdgeStream) {
      const name = processOf(stream);
      const known = open.get(name);
      if (known !== undefined) known.count -= 1;
      if (isClosed || (known !== undefined && known.count > 0)) return;
      open.delete(name);
      const entry = entryOf(stream, "edge.disconnect");
      const later = () => {
        leaving.delete(name);
        add(entry);
      };
      leaving.set(name, { timer: setTimeout(later, successorMs).unref(), entry });
    },
    close() {
      for (const { timer, entry } of leaving.values()) {
        clearTimeout(timer);
        add(entry);
      }
      leaving.clear();
      // Streams that end with this process, after the last write.
      for (const { stream } of open.values()) add(entryOf(stream, "edge.disconnect"));
      isClosed = true;
    },
  };
}

/** Returns a function that notes refusals. An edge that is refused tries again and again. */
function createRefusals(add: AddEntry, { now }: World): EdgeAudit["refused"] {
  const known = createLateCache<true>({ max: 1_000, ttl: refusalAgainMs });
  let left = refusalsPerMinute;
  let minute = 0;
  return ({ identity, error, peer }) => {
    const { code, metadata } = Fault.from(error);
    const actor = identity ?? metadata["identity"] ?? "unproven";
    const name = `${code}\0${actor}\0${peer}`;
    if (known.has(name)) return;
    const thisMinute = Math.floor(now() / 60_000);
    if (thisMinute !== minute) left = refusalsPerMinute;
    minute = thisMinute;
    if (left === 0) return;
    left -= 1;
    known.set(name, true);
    add({ actor, action: "edge.refuse", targets: [peer], fields: [code] });
  };
}
