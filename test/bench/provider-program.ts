/**
 * A sandbox in a process of its own: it says where it is, and on a line each, how often its token endpoint was asked.
 * `--aside`: it gets what the others leave of the cores, as one on another machine would take none of theirs.
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
