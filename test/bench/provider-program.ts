/**
 * A sandbox in its own process: it prints its address and, for each line of input, the number of requests to its token
 * endpoint. `--aside` gives it only idle CPU time, as if it ran on another machine.
 */
import { setPriority } from "node:os";
import { createInterface } from "node:readline";
import { startSandbox } from "../../src/dev/sandbox/sandbox.ts";

if (process.argv.includes("--aside")) setPriority(10);
const sandbox = await startSandbox({ behaviour: { maxRefreshTokens: 100_000 } });
process.stdout.write(`${sandbox.origin}\n`);
for await (const line of createInterface({ input: process.stdin })) {
  const grants = Number(line);
  const { requests, tallies } = sandbox.seen();
  const tokens = Array.from({ length: grants }, () => sandbox.grant());
  process.stdout.write(
    `${JSON.stringify({ requests: requests.token ?? 0, reused: tallies.supersededReused, tokens })}\n`,
  );
}
await sandbox.close();
