import { type Client, DatabaseError, type Pool, type PoolClient } from "pg";
import type { LoopClock } from "../../base/loop-clock.ts";
import type { Liveness } from "./liveness.ts";

/** Statements under way, limited in time. All of them can be interrupted. */
export interface Statements {
  /** Rejects if there is no response in time. */
  run<Row extends readonly unknown[]>(
    client: Client | PoolClient,
    text: string,
    values: readonly unknown[],
  ): Promise<Row[]>;
  /** Returns a free connection. Keeps waiting in the queue as long as the server responds to other statements. */
  takeFrom(pool: Pool): Promise<PoolClient>;
  /** An error from the server counts as a response. */
  noteAnswer(error: unknown): void;
  /** Rejects all waiting statements. */
  interrupt(error: Error): void;
}

interface StatementsOptions {
  readonly clock: LoopClock;
  readonly liveness: Liveness;
  readonly answerWithinMs: number;
}

export function createStatements({ clock, liveness, answerWithinMs }: StatementsOptions): Statements {
  /** Rejects each waiting statement. */
  const interrupts = new Set<(error: Error) => void>();

  function noteAnswer(error: unknown): void {
    if (error instanceof DatabaseError) liveness.answered();
  }

  async function run<Row extends readonly unknown[]>(
    client: Client | PoolClient,
    text: string,
    values: readonly unknown[],
  ): Promise<Row[]> {
    const { promise: interrupted, reject } = Promise.withResolvers<never>();
    const callOff = clock.after(answerWithinMs, () => reject(new Error("timeout: no answer")));
    const ended = liveness.begin();
    interrupts.add(reject);
    try {
      const { rows } = await Promise.race([
        client.query<unknown[]>({ text, values: [...values], rowMode: "array" }),
        interrupted,
      ]);
      liveness.answered();
      // The rows have the statement's columns.
      return rows as unknown as Row[];
    } catch (error) {
      noteAnswer(error);
      throw error;
    } finally {
      callOff();
      ended();
      interrupts.delete(reject);
    }
  }

  async function takeFrom(pool: Pool): Promise<PoolClient> {
    const { promise: interrupted, reject } = Promise.withResolvers<never>();
    let callOff = () => {};
    let isGivenUp = false;
    const giveUp = (error: Error) => {
      isGivenUp = true;
      reject(error);
    };
    const waitOn = () => {
      const before = liveness.answers;
      callOff = clock.after(answerWithinMs, () => {
        if (liveness.answers !== before) waitOn();
        else giveUp(new Error("timeout: no response to any statement"));
      });
    };
    waitOn();
    const ended = liveness.begin();
    interrupts.add(giveUp);
    const connecting = pool.connect();
    void connecting.then(
      // The caller has given up: release the connection.
      (client) => isGivenUp && client.release(),
      noteAnswer,
    );
    try {
      return await Promise.race([connecting, interrupted]);
    } finally {
      callOff();
      ended();
      interrupts.delete(giveUp);
    }
  }

  return {
    run,
    takeFrom,
    noteAnswer,
    interrupt(error) {
      for (const reject of interrupts) reject(error);
    },
  };
}
