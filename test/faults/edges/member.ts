import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../../support/postgres/postgres.ts";
import { beginLife, type Life } from "../loss/service.ts";

/** A place in the fleet. The process in it is replaced now and then. */
export interface Member extends Pick<Life, "data" | "ops" | "control" | "said"> {
  readonly name: string;
  /** Ends the process in order, and starts the next one: for a broker afterwards, for an edge before. */
  replace(): Promise<void>;
  kill(): Promise<void>;
  start(): Promise<void>;
}

export interface MemberOptions {
  readonly name: string;
  readonly folder: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Receives a sentence about a process that ended by itself, or that was asked to stop and failed. */
  readonly onWrong: (what: string) => void;
}

const looksEveryMs = 50;
const startsAtMost = 5;

/**
 * Each broker has a loopback address of its own, with ports that stay: no other connection of the machine can take
 * them while it is away.
 */
export async function brokerListens(number: number): Promise<Readonly<Record<string, string>>> {
  const host = process.platform === "linux" ? `127.${1 + (process.pid % 250)}.0.${number + 1}` : "127.0.0.1";
  return {
    LATCHKEY_DATA_LISTEN: `${host}:${await freePort()}`,
    LATCHKEY_CONTROL_LISTEN: `${host}:${await freePort()}`,
  };
}

export async function startBroker(options: MemberOptions): Promise<Member> {
  return await startMember("serve", options, async ({ begin, stop, become }) => {
    await stop();
    become(await begin());
  });
}

/** Callers go to the next edge as soon as this one says that it is not ready, as a load balancer has them do. */
export async function startEdge(options: MemberOptions): Promise<Member> {
  return await startMember("edge", options, async ({ begin, stop, become, current }) => {
    const next = await begin();
    const stopped = stop();
    while (await isReady(current())) await sleep(looksEveryMs);
    become(next);
    await stopped;
  });
}

async function isReady({ ops }: Life): Promise<boolean> {
  try {
    return (await fetch(`${ops}/readyz`)).status === 200;
  } catch {
    return false;
  }
}

interface Place {
  current(): Life;
  /** Starts a process, which is not the current one yet. */
  begin(): Promise<Life>;
  become(next: Life): void;
  /** Ends the current process in order. */
  stop(): Promise<void>;
}

async function startMember(
  command: "serve" | "edge",
  { name, folder, env, onWrong }: MemberOptions,
  replace: (place: Place) => Promise<void>,
): Promise<Member> {
  const asked = new WeakSet<Life>();

  async function begin(): Promise<Life> {
    for (let starts = 1; ; starts += 1) {
      try {
        const begun = await beginLife({ folder, env, clockOffsetMs: 0, command }).ready();
        void begun.ended.then((why) => asked.has(begun) || onWrong(`${name}: ${why}`));
        return begun;
      } catch (error) {
        if (starts === startsAtMost) throw error;
      }
    }
  }

  let life = await begin();
  const place: Place = {
    current: () => life,
    begin,
    become(next) {
      life = next;
    },
    async stop() {
      const stopped = life;
      asked.add(stopped);
      await stopped.stop();
      const why = await stopped.ended;
      if (!why.startsWith("it ended (0)")) onWrong(`${name}, asked to stop: ${why}`);
    },
  };
  return {
    name,
    get data() {
      return life.data;
    },
    get ops() {
      return life.ops;
    },
    get control() {
      return life.control;
    },
    said: () => life.said(),
    replace: () => replace(place),
    async kill() {
      asked.add(life);
      await life.kill();
    },
    async start() {
      life = await begin();
    },
  };
}
