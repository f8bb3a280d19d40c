import { createRequire } from "node:module";
import { Contents } from "./contents.ts";
import { GroupCommits } from "./group-commits.ts";
import type { SimulatedProcess, SimulatedTime } from "./time.ts";

const require = createRequire(import.meta.url);
const { DatabaseError } = require("pg-protocol") as typeof import("pg-protocol");

/** A connection as the server sees it. */
export interface Session {
  readonly id: number;
  readonly startedAt: number;
  readonly process: SimulatedProcess | undefined;
  readonly channels: Set<string>;
  notify: (payload: string) => void;
  /** The server ends the connection. */
  end: (reason: string) => void;
  isGone: boolean;
  /** What a transaction reads. */
  frozen: Contents | undefined;
}

export function serverError(code: string, message: string): Error {
  return Object.assign(new DatabaseError(message, message.length, "error"), { code, severity: "ERROR" });
}

interface DatabaseOptions {
  readonly time: SimulatedTime;
  readonly random: () => number;
  readonly count: (effect: string) => void;
}

/**
 * PostgreSQL as the store uses it: a table, a head, marks, locks, notifications. It answers the store's statements
 * (`statements.ts`); that real servers answer alike is what the conformance suite shows.
 */
export class Database {
  readonly time: SimulatedTime;
  readonly random: () => number;
  readonly count: (effect: string) => void;
  readonly sessions = new Map<number, Session>();
  readonly storeId = "0dd00000-0000-4000-8000-000000000001";
  contents = new Contents();
  timeline = 1;
  isUp = true;
  /** How long a commit takes. */
  diskMs = 2;
  /** How far the server's clock is ahead. */
  aheadMs = 0;
  readonly commits: GroupCommits;
  #waiting: (() => void)[] = [];
  #isLocked = false;
  #lastSession = 0;

  constructor({ time, random, count }: DatabaseOptions) {
    this.time = time;
    this.random = random;
    this.count = count;
    this.commits = new GroupCommits(this);
  }

  nowMs(): number {
    return this.time.trueWallMs() + this.aheadMs;
  }

  open(session: Omit<Session, "id" | "startedAt" | "isGone" | "frozen" | "channels">): Session {
    this.#lastSession += 1;
    const opened: Session = {
      ...session,
      id: this.#lastSession,
      startedAt: this.nowMs(),
      channels: new Set(),
      isGone: false,
      frozen: undefined,
    };
    this.sessions.set(opened.id, opened);
    return opened;
  }

  close(session: Session): void {
    session.isGone = true;
    this.sessions.delete(session.id);
  }

  notify(channel: string, payload: string): void {
    for (const session of this.sessions.values()) if (session.channels.has(channel)) session.notify(payload);
  }

  /** Has the head for the time of a write to the disk; then changes the contents. */
  async write<T>(change: () => T, check?: () => void): Promise<T> {
    const { contents } = this;
    await this.#lock();
    try {
      this.#requireSame(contents);
      check?.();
      const diskMs = this.diskMs * (0.5 + this.random());
      if (diskMs > 1_000) this.count("commits of more than a second");
      await this.rest(diskMs);
      this.#requireSame(contents);
      return change();
    } finally {
      if (this.contents === contents) this.#unlock();
    }
  }

  rest(ms: number): Promise<void> {
    return new Promise((resolve) => void this.time.after(ms, resolve));
  }

  /**
   * The server ends. What it was committing is lost, and its answers; it is back with these contents, on a machine with
   * its own clock if it is another one.
   */
  fail({ contents, isOther }: { readonly contents: Contents; readonly isOther: boolean }): void {
    for (const session of [...this.sessions.values()]) {
      session.end("terminating connection due to administrator command");
      this.close(session);
    }
    this.#waiting = [];
    this.#isLocked = false;
    this.commits.clear();
    if (contents.revision < this.contents.revision) this.count("rollbacks that lost commits");
    this.contents = contents.copy();
    this.isUp = false;
    if (!isOther) return;
    this.timeline += 1;
    this.aheadMs = Math.round((this.random() - 0.5) * 200);
  }

  #requireSame(contents: Contents): void {
    if (this.contents !== contents) throw serverError("57P01", "the server was stopped");
  }

  async #lock(): Promise<void> {
    if (!this.#isLocked) {
      this.#isLocked = true;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const callOff = this.time.after(5_000, () => {
      this.#waiting = this.#waiting.filter((one) => one !== enter);
      reject(serverError("55P03", "canceling statement due to lock timeout"));
    });
    const enter = () => {
      callOff();
      resolve();
    };
    this.#waiting.push(enter);
    await promise;
  }

  #unlock(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#isLocked = false;
    else next();
  }
}
