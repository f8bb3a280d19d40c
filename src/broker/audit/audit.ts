import { create } from "@bufbuild/protobuf";
import { timestampFromMs, timestampMs } from "@bufbuild/protobuf/wkt";
import { sequentialId, sequentialIdsFrom } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type AuditEvent, AuditEventSchema } from "../../gen/latchkey/v1/log_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { LogCollections } from "./log-collections.ts";

/** An audit entry: actor, action and targets. Never contains the values. */
export interface AuditEntry {
  readonly actor: string;
  readonly action: string;
  readonly environment?: string;
  readonly targets: readonly string[];
  readonly fields?: readonly string[];
}

export interface AuditFilter {
  readonly environment: string;
  readonly actor: string;
  readonly action: string;
  readonly target: string;
  /** Text in the actor, the action, a target or a field's name, in any case. */
  readonly text?: string;
  readonly sinceMs?: number | undefined;
  readonly untilMs?: number | undefined;
}

export interface Audit {
  /**
   * Returns the audit entry to commit together with the change that the entry describes, so that neither exists alone.
   */
  changes(entry: AuditEntry): Change[];
  /** Stores the entry of an action that changes nothing in the store. */
  note(entry: AuditEntry): Promise<void>;
  /** Stores several such entries in one commit. */
  noteAll(entries: readonly AuditEntry[]): Promise<void>;
  list(filter: AuditFilter, page: PageOptions): Promise<PageOf<AuditEvent>>;
}

/** Limits the entries that one call reads. The call then returns the matches, with a token to continue from. */
const linesPerCall = 2_000;

interface AuditOptions {
  readonly store: Store;
  readonly collections: LogCollections;
  readonly world: World;
}

export function createAudit({ store, collections, world }: AuditOptions): Audit {
  function changes({ actor, action, environment = "", targets, fields = [] }: AuditEntry): Change[] {
    const at = world.now();
    const event = create(AuditEventSchema, {
      id: sequentialId(at),
      at: timestampFromMs(at),
      actor,
      action,
      environment,
      targets: [...targets],
      fields: [...fields],
    });
    return collections.audit.change({ before: undefined, after: event });
  }

  return {
    changes,
    async note(entry) {
      await transact(store, async () => ({ changes: changes(entry), result: undefined }));
    },
    async noteAll(entries) {
      await transact(store, async () => ({ changes: entries.flatMap(changes), result: undefined }));
    },
    async list(filter, { size, token }) {
      const { sinceMs = 0, untilMs } = filter;
      const tokens = pageTokens(["audit", filter]);
      const newest = untilMs === undefined ? undefined : sequentialIdsFrom(untilMs);
      const isWanted = auditMatcher(filter);
      const request = { after: tokens.read(token) ?? newest, limit: linesPerCall, reverse: true };
      const found = await (filter.environment === ""
        ? collections.audit.page({ ...request, under: [] })
        : collections.audit.pageBy("environment", { ...request, under: [filter.environment] }));
      const items: AuditEvent[] = [];
      for (const { value, position } of found) {
        if (happenedAt(value) < sinceMs) return { items, next: "" };
        if (!isWanted(value)) continue;
        items.push(value);
        if (items.length === size) return { items, next: tokens.write(position) };
      }
      const last = found.length < linesPerCall ? undefined : found.at(-1);
      return { items, next: last === undefined ? "" : tokens.write(last.position) };
    },
  };
}

const happenedAt = ({ at }: AuditEvent): number => (at === undefined ? 0 : timestampMs(at));

/** Returns a test for the events that a filter wants. */
export function auditMatcher(filter: AuditFilter): (event: AuditEvent) => boolean {
  const { environment, actor, action, target, text = "", untilMs } = filter;
  const wanted = text.toLowerCase();
  const isIn = (one: string) => one.toLowerCase().includes(wanted);
  return (event) =>
    (environment === "" || event.environment === environment) &&
    (actor === "" || event.actor === actor) &&
    (action === "" || event.action === action || event.action.startsWith(`${action}.`)) &&
    (target === "" || event.targets.includes(target)) &&
    (untilMs === undefined || happenedAt(event) < untilMs) &&
    (wanted === "" || [event.actor, event.action, ...event.targets, ...event.fields].some(isIn));
}
