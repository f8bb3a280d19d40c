import { randomBytes } from "node:crypto";
import { create } from "@bufbuild/protobuf";
import { timestampFromMs } from "@bufbuild/protobuf/wkt";
import { Fault } from "../../base/fault.ts";
import { digestOf, randomId } from "../../base/ids.ts";
import type { World } from "../../base/world.ts";
import { type SignedInBrowser, SignedInBrowserSchema } from "../../gen/latchkey/stored/v1/stored_pb.ts";
import { Scope } from "../../gen/latchkey/v1/access_pb.ts";
import { type BrowserSession, BrowserSessionSchema } from "../../gen/latchkey/v1/sign_in_pb.ts";
import type { Store } from "../../store/contract.ts";
import { transact } from "../../store/records.ts";
import type { Audit } from "../audit/audit.ts";
import { type Caller, mayDo } from "../setup/caller.ts";
import type { LastUsedTimes } from "../stored/last-used.ts";
import { pageTokens } from "../stored/page-token.ts";
import type { PageOf, PageOptions } from "../stored/paging.ts";
import type { SessionHolder, SessionHolders } from "./holders.ts";
import {
  bornMs,
  browserSessionLifetimeMs,
  createKnownBrowsers,
  type KnownBrowser,
  type KnownBrowsers,
  type SessionProof,
  signedOut,
  touchKeyOf,
} from "./known-browsers.ts";
import type { SignInCollections } from "./sign-in-collections.ts";

/** Browsers that are signed in to the dashboard. */
export interface BrowserSessions {
  /** Signs a browser in. Both secrets are returned once: one for its cookie, one for its page. */
  create(browser: NewBrowser): Promise<CreatedBrowserSession>;
  /**
   * Returns the caller that a session stands for. Throws `signed_out` if it has ended, or if the two secrets do not
   * belong together.
   */
  authenticate(proof: SessionProof): Promise<Caller>;
  /** Returns everything that the holder of a session may be. */
  describe(proof: SessionProof): Promise<SignedInState>;
  /** Lists the sessions that a caller may see. */
  list(caller: Caller, page: PageOptions): Promise<PageOf<BrowserSession>>;
  revoke(request: { readonly id: string }, caller: Caller): Promise<void>;
  /** Signs a browser out. */
  end(proof: SessionProof): Promise<void>;
  close(): void;
}

export interface NewBrowser {
  readonly holder: SessionHolder;
  readonly address: string;
  readonly userAgent: string;
}

export interface CreatedBrowserSession {
  readonly cookie: string;
  readonly secret: string;
  readonly expiresAtMs: number;
}

export interface SignedInState {
  readonly session: BrowserSession;
  readonly callers: readonly Caller[];
}

/** Sessions of one key or person. A further sign-in ends the oldest. */
const maxOfHolder = 20;
const maxUserAgent = 200;

interface BrowserSessionsOptions {
  readonly store: Store;
  readonly collections: SignInCollections;
  readonly holders: SessionHolders;
  readonly lastUsed: LastUsedTimes;
  readonly audit: Audit;
  readonly world: World;
}

export function createBrowserSessions(options: BrowserSessionsOptions): BrowserSessions {
  const { store, collections, holders, audit, world } = options;
  const { browserSessions: records } = collections;
  const browsers = createKnownBrowsers(options);

  function callersIn({ stored }: KnownBrowser): readonly Caller[] {
    const callers = holders.callersOf(stored);
    const session = { id: stored.id, person: stored.person?.name, environments: environmentsOf(callers) };
    return callers.map((caller) => ({ ...caller, session }));
  }

  async function deletion(id: string, actor: string, action: string): Promise<void> {
    await transact(store, async () => {
      const before = await records.get(id);
      if (before === undefined) return { changes: [], result: undefined };
      const entry = audit.changes({ actor, action, ...placeOf(holders, before.value), targets: [id] });
      const touch = { key: touchKeyOf(id), value: undefined };
      return { changes: [...records.change({ before, after: undefined }), touch, ...entry], result: undefined };
    });
  }

  return {
    async create({ holder, address, userAgent }) {
      await browsers.inSync();
      const [id, token, secret] = [randomId(), newToken(), newToken()];
      const stored = create(SignedInBrowserSchema, {
        id,
        tokenHash: digestOf(token),
        secretHash: digestOf(secret),
        keyId: holder.keyId,
        keyDigest: holder.keyDigest,
        ...(holder.person !== undefined && { person: holder.person }),
        createdAt: timestampFromMs(world.now()),
        address,
        userAgent: userAgent.slice(0, maxUserAgent),
      });
      const actor = actorOf(stored);
      const others = browsers
        .all()
        .filter((one) => actorOf(one.stored) === actor)
        .sort((a, b) => bornMs(b.stored) - bornMs(a.stored));
      for (const old of others.slice(maxOfHolder - 1)) await deletion(old.stored.id, actor, "session.end");
      await store.commit([
        ...records.added(stored),
        ...audit.changes({ actor, action: "session.create", ...placeOf(holders, stored), targets: [id] }),
      ]);
      return { cookie: `${id}.${token}`, secret, expiresAtMs: bornMs(stored) + browserSessionLifetimeMs };
    },
    async authenticate(proof) {
      const callers = callersIn(await browsers.find(proof));
      const caller = callers.find(({ environment }) => environment === proof.environment) ?? callers[0];
      if (caller === undefined) throw permissionGone();
      return caller;
    },
    async describe(proof) {
      const one = await browsers.find(proof);
      const callers = callersIn(one);
      if (callers.length === 0) throw permissionGone();
      return { session: await shownSession(one, { browsers, holders, current: one.stored.id }), callers };
    },
    async list(caller, { size, token }) {
      await browsers.inSync();
      await store.caughtUp();
      const isAdmin = mayDo(caller, Scope.ADMIN);
      const tokens = pageTokens(["browser-sessions", caller.keyId]);
      const from = tokens.read(token);
      const candidates = browsers.all().filter(({ stored }) => isAdmin || isOwn(stored, caller));
      const over = await Promise.all(candidates.map(browsers.isOver));
      const all = candidates
        .filter((one, i) => over[i] === false && holders.callersOf(one.stored).length > 0)
        .map((one) => ({ one, position: positionOf(one.stored) }))
        .sort((a, b) => (a.position < b.position ? 1 : -1));
      const rest = from === undefined ? all : all.filter(({ position }) => position < from);
      const page = rest.slice(0, size);
      return {
        items: await Promise.all(
          page.map(({ one }) => shownSession(one, { browsers, holders, current: caller.session?.id })),
        ),
        next: rest.length > size ? tokens.write(page.at(-1)?.position ?? "") : "",
      };
    },
    async revoke({ id }, caller) {
      await browsers.inSync();
      await store.caughtUp();
      const stored = browsers.get(id)?.stored;
      if (stored === undefined || (!mayDo(caller, Scope.ADMIN) && !isOwn(stored, caller))) {
        throw new Fault("not_found", "there is no such browser session, or it has ended");
      }
      await deletion(id, caller.keyId, "session.revoke");
    },
    async end(proof) {
      const { stored } = await browsers.find({ ...proof, isUse: false });
      await deletion(stored.id, actorOf(stored), "session.end");
    },
    close: browsers.close,
  };
}

const permissionGone = () => signedOut("the key or permission of this session is gone");

/** Returns the environments of these callers; undefined for all. */
const environmentsOf = (callers: readonly Caller[]): readonly string[] | undefined =>
  callers.some(({ environment }) => environment === undefined)
    ? undefined
    : callers.flatMap(({ environment = [] }) => environment);

/** Returns what a list shows of a session. `current` is the ID of the session that asks. */
async function shownSession(one: KnownBrowser, { browsers, holders, current }: SessionView): Promise<BrowserSession> {
  const { stored } = one;
  return create(BrowserSessionSchema, {
    id: stored.id,
    keyId: stored.keyId,
    person: stored.person?.name ?? "",
    environments: [...(environmentsOf(holders.callersOf(stored)) ?? [])],
    createdAt: timestampFromMs(bornMs(stored)),
    lastUsedAt: timestampFromMs(await browsers.lastUseOf(one)),
    expiresAt: timestampFromMs(bornMs(stored) + browserSessionLifetimeMs),
    address: stored.address,
    userAgent: stored.userAgent,
    current: stored.id === current,
  });
}

interface SessionView {
  readonly browsers: KnownBrowsers;
  readonly holders: SessionHolders;
  readonly current: string | undefined;
}

/** A key sees the sessions that it opened; a person sees their own. */
const isOwn = (stored: SignedInBrowser, { keyId, session }: Caller): boolean =>
  session?.person === undefined
    ? stored.person === undefined && stored.keyId === keyId
    : stored.person?.name === session.person;

const actorOf = ({ keyId, person }: Pick<SignedInBrowser, "keyId" | "person">): string => person?.name ?? keyId;

/** The environment of a session that has only one, for its audit entry. */
function placeOf(holders: SessionHolders, stored: SignedInBrowser): { readonly environment?: string } {
  const [only, ...others] = holders.callersOf(stored);
  return only?.environment === undefined || others.length > 0 ? {} : { environment: only.environment };
}

const positionOf = (stored: SignedInBrowser): string => `${String(bornMs(stored)).padStart(16, "0")} ${stored.id}`;

const newToken = (): string => randomBytes(32).toString("base64url");
