/** Stands in for the package `pg`: the client is simulated, its pool is the real one. */
import { EventEmitter } from "node:events";
import { createRequire } from "node:module";
import { type Session, serverError } from "./database.ts";
import { execute } from "./statements.ts";
import { world } from "./world.ts";

const require = createRequire(import.meta.url);
const RealPool = require("pg-pool") as new (options: object, client: unknown) => object;
export const { DatabaseError } = require("pg-protocol") as typeof import("pg-protocol");
export const TypeOverrides = require("pg/lib/type-overrides.js") as new () => object;

interface Waiting {
  readonly resolve: (result: { readonly rows: readonly unknown[] }) => void;
  readonly reject: (error: Error) => void;
}

export class Client extends EventEmitter {
  readonly connectionParameters: Record<string, unknown> = {};
  readonly connection: EventEmitter & { stream: { destroyed: boolean; destroy(error?: Error): void } };
  processID = 0;
  _queryable = true;
  _ending = false;
  #state: "new" | "connecting" | "open" | "ended" = "new";
  #connecting: Waiting | undefined;
  readonly #waiting: Waiting[] = [];
  readonly #process = world.time.process;
  readonly #link = world.linkToDatabase(this.#process?.name ?? "");
  readonly #wire = this.#link.open({ onBroken: () => this.#later(() => this.#lost(new Error("read ECONNRESET"))) });
  #session: Session | undefined;
  /** The server works on statements one after another. */
  #turn: Promise<unknown> = Promise.resolve();

  /** Whether statements may be sent before those ahead are answered. */
  readonly #isPipelined: boolean;

  constructor(config?: { readonly pipeline?: boolean }) {
    super();
    this.#isPipelined = config?.pipeline === true;
    const stream = { destroyed: false, destroy: (error?: Error) => this.#destroy(error) };
    this.connection = Object.assign(new EventEmitter(), { stream });
  }

  connect(): Promise<this> {
    this.#state = "connecting";
    return new Promise((resolve, reject) => {
      this.#connecting = { resolve: () => resolve(this), reject };
      if (this.#link.state === "cut") this.#later(() => this.#lost(new Error("connect ECONNREFUSED")));
      this.#wire.toServer(() => this.#accepted(), undefined);
    });
  }

  query({ text, values = [] }: { readonly text: string; readonly values?: readonly unknown[] }) {
    return new Promise((resolve, reject) => {
      if (this.#state !== "open") {
        reject(new Error("Client was closed and is not queryable"));
        return;
      }
      if (!this.#isPipelined && this.#waiting.length > 0) {
        world.fail(this.#process?.name ?? "?", new Error(`sent while another statement runs: ${text.slice(0, 100)}`));
      }
      this.#waiting.push({ resolve, reject });
      if (text.includes("commit_3(")) this.#beforeCommit();
      this.#wire.toServer(() => this.#run(text, values), undefined);
    });
  }

  end(callback?: () => void): Promise<void> | undefined {
    this._ending = true;
    const ended = new Promise<void>((resolve) => {
      if (this.#state === "ended") resolve();
      else this.once("end", resolve);
    });
    // What was sent is answered first.
    const session = this.#session;
    this.#wire.toServer(() => session && world.database.close(session), undefined);
    this.#wire.toClient(() => this.#lost(new Error("Connection terminated")), this.#process);
    if (callback === undefined) return ended;
    ended.then(callback);
    return undefined;
  }

  ref(): void {}
  unref(): void {}

  #beforeCommit(): void {
    const { beforeCommit } = this.#link;
    this.#link.beforeCommit = undefined;
    beforeCommit?.();
  }

  #later(run: () => void): void {
    world.time.afterIn(this.#process, 0, run);
  }

  /** At the server. */
  #accepted(): void {
    const { database } = world;
    if (!database.isUp) {
      this.#wire.toClient(() => this.#lost(new Error("connect ECONNREFUSED")), this.#process);
      return;
    }
    const session = database.open({
      process: this.#process,
      notify: (payload) => this.#wire.toClient(() => this.emit("notification", { payload }), this.#process),
      end: (reason) => this.#wire.toClient(() => this.#lost(serverError("57P01", reason)), this.#process),
    });
    this.#session = session;
    this.#wire.toClient(() => {
      if (this.#state !== "connecting") return;
      this.#state = "open";
      this.processID = session.id;
      this.emit("connect");
      this.#connecting?.resolve({ rows: [] });
      this.#connecting = undefined;
    }, this.#process);
  }

  /** At the server. */
  #run(text: string, values: readonly unknown[]): void {
    const session = this.#session;
    const { database } = world;
    const step = async () => {
      if (session === undefined || session.isGone) return;
      let settle: (waiting: Waiting) => void;
      try {
        const rows = await execute({ text, values, session, database });
        settle = ({ resolve }) => resolve({ rows });
      } catch (error) {
        if (!(error instanceof DatabaseError)) throw error;
        world.count(`answers ${error.code}`);
        settle = ({ reject }) => reject(error);
      }
      if (session.isGone) return;
      this.#wire.toClient(() => {
        const first = this.#waiting.shift();
        if (first !== undefined) settle(first);
      }, this.#process);
    };
    this.#turn = world.time
      .inside(undefined, () => this.#turn.then(step))
      .catch((error: unknown) => world.fail("the server", error));
  }

  #destroy(error?: Error): void {
    if (this.connection.stream.destroyed) return;
    this.connection.stream.destroyed = true;
    const session = this.#session;
    this.#wire.toServer(() => session && world.database.close(session), undefined);
    this.#later(() => this.#lost(error ?? new Error("Connection terminated unexpectedly")));
  }

  #lost(error: Error): void {
    if (this.#state === "ended") return;
    const wasOpen = this.#state === "open";
    this.#state = "ended";
    this._queryable = false;
    this.connection.stream.destroyed = true;
    if (this.#link.state === "cut" && this.#session !== undefined) world.database.close(this.#session);
    this.#wire.close();
    this.#connecting?.reject(error);
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    if (wasOpen && !this._ending) this.emit("error", error);
    this.emit("end");
  }
}

export class Pool extends RealPool {
  constructor(options: object) {
    super(options, Client);
  }
}
