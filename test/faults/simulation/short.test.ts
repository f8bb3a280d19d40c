/** The short form of `npm run faults:simulation`, in a program of its own: the simulation replaces clocks and timers. */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const command = fileURLToPath(new URL("./command.ts", import.meta.url));

it("keeps what was promised in a simulated world of faults", () => {
  const args = [command, "--steps", "1000", "--seed", "1"];
  const { status, stdout } = spawnSync(process.execPath, args, { encoding: "utf8", maxBuffer: 64 * 1024 * 1024 });
  expect(status, stdout).toBe(0);
}, 300_000);
