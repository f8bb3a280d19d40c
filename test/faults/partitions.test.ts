/** Three processes that share the work of one PostgreSQL. */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { partitionCount } from "../../src/broker/partitions/partition-of.ts";
import { postgresForFile } from "../support/postgres/stores.ts";
import { startStopwatch } from "../support/runner/stopwatch.ts";
import { lacks } from "../support/sidecar/needs.ts";

const program = fileURLToPath(new URL("partition-member.ts", import.meta.url));
const soon = { interval: 50 };

interface Member {
  readonly child: ChildProcess;
  ask<T>(question: string): Promise<T>;
}

async function startMember(url: string): Promise<Member> {
  const child = fork(program, [url], { execArgv: [], stdio: ["ignore", "ignore", "inherit", "ipc"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const waiting = new Map<string, (answer: never) => void>();
  const { promise: ready, resolve } = Promise.withResolvers<void>();
  waiting.set("ready", resolve);
  child.on("message", ({ question, answer }: { question: string; answer: never }) => waiting.get(question)?.(answer));
  const ask = <T>(question: string): Promise<T> => {
    const { promise, resolve: answered } = Promise.withResolvers<T>();
    waiting.set(question, answered as (answer: never) => void);
    child.send(question);
    return promise;
  };
  await ready;
  return { child, ask };
}

const heldBy = (members: readonly Member[]) => Promise.all(members.map(({ ask }) => ask<number[]>("held")));
const sizesOf = async (members: readonly Member[]) => (await heldBy(members)).map(({ length }) => length);
const everything = Array.from({ length: partitionCount }, (_, number) => number);

describe.skipIf(lacks("postgres"))("three processes over one PostgreSQL", () => {
  const file = postgresForFile();

  /** Returns once they have even shares. */
  async function startThree(): Promise<[Member, Member, Member]> {
    const url = file.server.storeUrl(file.newSchema());
    const members: [Member, Member, Member] = [await startMember(url), await startMember(url), await startMember(url)];
    await expect.poll(async () => (await sizesOf(members)).toSorted(), soon).toEqual([21, 21, 22]);
    expect((await heldBy(members)).flat().toSorted((a, b) => a - b)).toEqual(everything);
    return members;
  }

  it("move the partitions of a killed one within 15 seconds", async () => {
    const [killed, ...others] = await startThree();
    killed.child.kill("SIGKILL");
    await once(killed.child, "exit");
    const elapsed = startStopwatch();
    await expect.poll(() => sizesOf(others), soon).toEqual([32, 32]);
    expect(elapsed.ms).toBeLessThan(15_000);
    expect((await heldBy(others)).flat().toSorted((a, b) => a - b)).toEqual(everything);
  });

  it("take over at once from one that retires", async () => {
    const [retired, ...others] = await startThree();
    const elapsed = startStopwatch();
    await retired.ask("retire");
    await expect.poll(() => sizesOf(others), soon).toEqual([32, 32]);
    // Far below the term, after which a silent member counts as dead.
    expect(elapsed.ms).toBeLessThan(6_000);
    expect(await retired.ask("held")).toEqual([]);
  });

  it("refuse the commits of a paused one, and share with it when it resumes", async () => {
    const [paused, ...others] = await startThree();
    const kept = await paused.ask<number>("keep");
    expect(await paused.ask("write")).toBe(0);
    paused.child.kill("SIGSTOP");
    await expect.poll(() => sizesOf(others), soon).toEqual([32, 32]);
    paused.child.send("working");
    const told = once(paused.child, "message");
    paused.child.kill("SIGCONT");
    // Its first answer: it knows that its time is over before anybody told it so.
    expect(await told).toMatchObject({ 0: { question: "working", answer: [] } });
    expect(await paused.ask("write")).toBe(kept);
    await expect.poll(async () => (await sizesOf([paused, ...others])).toSorted(), soon).toEqual([21, 21, 22]);
  });
});
