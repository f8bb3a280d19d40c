import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

/** The applications that receive deliveries, in their own process. */
export interface Application {
  readonly url: string;
  say(): Promise<{ readonly got: Readonly<Record<string, number>>; readonly lastAt: number }>;
  stop(): void;
}

export async function startApplication(): Promise<Application> {
  const program = fileURLToPath(new URL("application-program.ts", import.meta.url));
  const child = spawn(process.execPath, [program], { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { done, value } = await lines.next();
    if (done === true) throw new Error("the application ended");
    return String(value);
  };
  const port = await next();
  return {
    url: `http://127.0.0.1:${port}`,
    async say() {
      child.stdin.write("\n");
      return JSON.parse(await next()) as Awaited<ReturnType<Application["say"]>>;
    },
    stop: () => child.stdin.end(),
  };
}

/** When the last delivery of this number arrived. */
export async function delivered(application: Application, count: number): Promise<number> {
  for (const until = performance.now() + 120_000; ; await sleep(20)) {
    const { got, lastAt } = await application.say();
    if ((got["/fast"] ?? 0) >= count) return lastAt;
    if (performance.now() > until) throw new Error(`${got["/fast"]} of ${count} were delivered`);
  }
}
