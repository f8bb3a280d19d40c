import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { lowerTags } from "../../core/connection-rules.ts";
import {
  type ConnectSession,
  ConnectSession_State,
  ConnectSessionSchema,
  type CreateConnectSessionRequest,
} from "../../gen/latchkey/v1/connect_session_pb.ts";
import type { Change, Store } from "../../store/contract.ts";
import { type StoredRecordOf, transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import type { Connections } from "../connections/connections.ts";
import type { Caller } from "../setup/caller.ts";
import { requireConfigScope } from "../setup/credential-scope.ts";
import type { Integrations } from "../setup/integrations.ts";
import type { Providers } from "../setup/providers.ts";
import type { SetupCollections } from "../setup/setup-collections.ts";
import { requireRevision } from "../stored/conflict.ts";
import { namesNothing } from "../stored/name-tables.ts";
import type { AuthorizationCollections } from "./authorization-collections.ts";
import { checkConnectSession } from "./connect-session-rules.ts";
import { isSessionOver, type ListSessions, listSessions } from "./session-list.ts";

/** Short-lived permissions for one browser to make one connection. */
export interface ConnectSessions {
  create(wanted: NewSession, caller: Caller, options?: NewSessionOptions): Promise<CreatedSession>;
  /** Returns the session of a token. Throws `unknown_session` without details. */
  withToken(token: string): Promise<StoredRecordOf<ConnectSession>>;
  /** Binds the session to the browser with this secret. Throws `other_browser` if it is bound to another. */
  bind(stored: StoredRecordOf<ConnectSession>, secret: string): Promise<StoredRecordOf<ConnectSession>>;
  get(ref: SessionRef): Promise<ConnectSession>;
  readonly list: ListSessions;
  delete(ref: SessionRef & { readonly expectedRevision: bigint }, actor: string): Promise<void>;
  /**
   * Returns the changes that end the session, for the commit of its connection. No second connection can then use it.
   */
  end(stored: StoredRecordOf<ConnectSession>): Change[];
  /** Returns the keys of the existing integrations that the session's holder may choose from, in order. */
  choices(session: ConnectSession): Promise<readonly string[]>;
}

/** A session as stored. */
export type StoredSession = StoredRecordOf<ConnectSession>;

export type NewSession = Omit<CreateConnectSessionRequest, "$typeName" | "$unknown">;

export interface NewSessionOptions {
  /** ID of the new connection; empty: a random one. */
  readonly connectionId?: string;
}

export interface SessionRef {
  /** Undefined: any environment, since IDs cannot be guessed. */
  readonly environment: string | undefined;
  readonly id: string;
}

export interface CreatedSession {
  readonly session: ConnectSession;
  /** Shown only once. */
  readonly token: string;
  readonly connectLink: string;
}

interface ConnectSessionsOptions {
  readonly store: Store;
  readonly collections: SetupCollections & AuthorizationCollections;
  readonly integrations: Integrations;
  readonly connections: Connections;
  readonly providers: Providers;
  readonly publicUrl: () => string;
  readonly audit: Audit;
  readonly world: World;
}

export const sessionLifetimeMs = 30 * 60_000;
const maxChoices = 1_000;

export function createSessions(options: ConnectSessionsOptions): ConnectSessions {
  const { store, collections, integrations, connections, providers, publicUrl, audit, world } = options;
  const { connectSessions } = collections;

  async function find({ environment, id }: SessionRef): Promise<StoredRecordOf<ConnectSession>> {
    const found = namesNothing(id) ? undefined : await connectSessions.get(id);
    const isTheirs = environment === undefined || found?.value.environment === environment;
    if (found !== undefined && isTheirs && !isSessionOver(found.value, world.now())) return found;
    throw new Fault("not_found", "there is no such connect session, or it has ended");
  }

  /**
   * Requires the named integrations and connection to exist: better to fail now than to show a broken link to an end
   * user.
   */
  async function requireNamed(session: ConnectSession, caller: Caller): Promise<void> {
    const { environment, allowedIntegrations, integrationDefaults, overrides, reconnect } = session;
    const named = [...allowedIntegrations, ...Object.keys(integrationDefaults), ...Object.keys(overrides)];
    for (const key of new Set(named)) {
      await integrations.get({ environment, key });
    }
    if (reconnect === undefined) return;
    const { value: existing } = await connections.get(reconnect);
    const provider = await providers.findNow(existing.provider);
    const { connectionConfig: before = {} } = existing;
    const after = { ...before, ...integrationDefaults[reconnect.integration]?.connectionConfig };
    requireConfigScope(caller, { provider, before, after });
  }

  return {
    async create(wanted, caller, { connectionId = "" } = {}) {
      const { keyId: actor } = caller;
      const token = newToken();
      const origin = { id: digestOf(token), createdBy: actor, nowMs: world.now() };
      const session = { ...newSession(wanted, origin), connectionId };
      const mistakes = checkConnectSession({ ...session, tags: wanted.tags });
      if (mistakes.length > 0) throw new Fault("invalid_body", "the connect session is not valid", { mistakes });
      await requireNamed(session, caller);
      const { environment } = session;
      const revision = await store.commit([
        ...connectSessions.change({ before: undefined, after: session }),
        ...audit.changes({ actor, action: "connect_session.create", environment, targets: [session.id] }),
      ]);
      world.metrics.connectSessions.inc();
      const connectLink = `${publicUrl()}/connect/?session_token=${encodeURIComponent(token)}`;
      const state = ConnectSession_State.CREATED;
      return { session: { ...session, state, revision: BigInt(revision) }, token, connectLink };
    },
    async withToken(token) {
      const found = isToken(token) ? await connectSessions.get(digestOf(token)) : undefined;
      if (found !== undefined && !isSessionOver(found.value, world.now())) return found;
      throw new Fault("unknown_session", "the connect session is unknown, used or expired; create another");
    },
    async bind(stored, secret) {
      const browserHash = digestOf(secret);
      if (stored.value.browserHash === browserHash) return stored;
      if (stored.value.browserHash !== "") throw otherBrowser();
      const { result, revision } = await transact(store, async () => {
        const before = await connectSessions.get(stored.value.id);
        if (before === undefined) throw new Fault("unknown_session", "the connect session has been used");
        if (before.value.browserHash !== "" && before.value.browserHash !== browserHash) throw otherBrowser();
        const after = { ...before.value, browserHash };
        return { changes: connectSessions.change({ before, after }), result: after };
      });
      return { ...stored, value: result, revision };
    },
    get: async (ref) => (await find(ref)).value,
    list: listSessions({ connectSessions, world }),
    async delete({ expectedRevision, ...ref }, actor) {
      await transact(store, async () => {
        const before = await find(ref);
        requireRevision(before, expectedRevision);
        const { environment, id } = before.value;
        return {
          changes: [
            ...connectSessions.change({ before, after: undefined }),
            ...audit.changes({ actor, action: "connect_session.delete", environment, targets: [id] }),
          ],
          result: undefined,
        };
      });
    },
    end: (before) => connectSessions.change({ before, after: undefined }),
    async choices({ environment, allowedIntegrations }) {
      if (allowedIntegrations.length > 0) {
        const named = await collections.integrations.getMany(allowedIntegrations.map((key) => [environment, key]));
        return allowedIntegrations.filter((_, i) => named[i] !== undefined);
      }
      const found = await collections.integrations.page({ under: [environment], limit: maxChoices });
      return found.map(({ value }) => value.key);
    },
  };
}

interface SessionOrigin {
  readonly id: string;
  readonly createdBy: string;
  readonly nowMs: number;
}

function newSession(wanted: NewSession, { id, createdBy, nowMs }: SessionOrigin): ConnectSession {
  const { reconnect } = wanted;
  return create(ConnectSessionSchema, {
    ...wanted,
    ...(reconnect === undefined ? {} : { reconnect: { ...reconnect, environment: wanted.environment } }),
    tags: lowerTags(wanted.tags),
    allowedIntegrations: reconnect === undefined ? wanted.allowedIntegrations : [reconnect.integration],
    id,
    createdBy,
    createdAt: timestampFromMs(nowMs),
    expiresAt: timestampFromMs(nowMs + sessionLifetimeMs),
  });
}

/** The error for every browser except the one that the session is bound to. */
export const otherBrowser = () =>
  new Fault("other_browser", "the connect session is in use in another browser, or this browser has lost its cookies");

/** 192 random bits: anyone who guessed a token could make a connection in another user's name. */
const newToken = (): string => `lk_connect_${randomBytes(24).toString("base64url")}`;
const isToken = (text: string): boolean => /^lk_connect_[A-Za-z0-9_-]{32}$/.test(text);
