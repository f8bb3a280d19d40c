import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { sequentialId } from "../../base/ids.ts";
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
}

export interface Audit {
  /**
   * Returns the audit entry to commit together with the change that the entry describes, so that neither exists alone.
   */
  changes(entry: AuditEntry): Change[];
  /** Stores the entry of an action that changes nothing in the store. */
  note(entry: AuditEntry): Promise<void>;
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
    async list(filter, { size, token }) {
      const tokens = pageTokens(["audit", filter]);
      const request = { after: tokens.read(token), limit: linesPerCall, reverse: true };
      const found = await (filter.environment === ""
        ? collections.audit.page({ ...request, under: [] })
        : collections.audit.pageBy("environment", { ...request, under: [filter.environment] }));
      const items: AuditEvent[] = [];
      for (const { value, position } of found) {
        if (!matches(value, filter)) continue;
        items.push(value);
        if (items.length === size) return { items, next: tokens.write(position) };
      }
      const last = found.length < linesPerCall ? undefined : found.at(-1);
      return { items, next: last === undefined ? "" : tokens.write(last.position) };
    },
  };
}

const matches = ({ actor, action, targets }: AuditEvent, filter: AuditFilter): boolean =>
  (filter.actor === "" || actor === filter.actor) &&
  (filter.action === "" || action === filter.action || action.startsWith(`${filter.action}.`)) &&
  (filter.target === "" || targets.includes(filter.target));
