import { expect, it } from "vitest";
import { fuzzSeeds, seeded } from "../../support/runner/seeded.ts";
import {
  doorNames,
  expectUnharmed,
  lateStatusAt,
  memoryOf,
  openFileNames,
  serveAllDoors,
  textAt,
} from "../../support/sidecar/door-process.ts";
import { secretKey } from "../../support/sidecar/harness.ts";
import { lacks } from "../../support/sidecar/needs.ts";
import { createHostileConnections, openGauges, runHostile } from "../../support/wire/hostile-connections.ts";

/** The long form is `npm run faults:doors`: 100,000 connections, with a random seed that repeats its failures. */
const count = Number(process.env["LATCHKEY_FUZZ_COUNT"] ?? 1_000);
const [seed = 1] = fuzzSeeds([1]);
const headers = { authorization: `Bearer ${secretKey}`, "provider-config-key": "here", "connection-id": "ada" };

it.each([false, ...(lacks("openssl") ? [] : [true])])(
  "survives whatever clients send at every door, and keeps nothing of it (TLS: %s)",
  { timeout: 250_000 + 40 * count },
  async (isTls) => {
    process.stdout.write(`fuzz: LATCHKEY_FUZZ_SEED=${seed} LATCHKEY_FUZZ_COUNT=${count}\n`);
    const running = await serveAllDoors({ isTls });
    // Each must have answered: what a door opens with its first request is not left by the clients below.
    for (const door of doorNames) expect(await lateStatusAt(`${running.address(door)}/nowhere`)).toBe(404);
    const before = new Set(openFileNames(running));
    const doors = doorNames.map((door) => running.address(door));
    await runHostile(createHostileConnections({ random: seeded(seed), doors, headers }), count, 40);
    await expectUnharmed(running, `seed ${seed}`);
    // MiB, the limit of the manifests.
    expect(memoryOf(running)).toBeLessThan(512);
    // The deadlines of a client that goes silent and leaves its side open follow one another: 20 s without a frame,
    // 20 s for a PING, 30 s to close at most, each with its sweep. Most runs need 3 s or 43 s.
    const waiting = { timeout: 100_000, interval: 500, message: `seed ${seed}` };
    const left = async () => openGauges(await textAt(`${running.address("ops")}/metrics`));
    await expect.poll(left, waiting).toEqual([]);
    // The store may have opened a few. A busy process closes its last sockets late.
    const opened = () => openFileNames(running).filter((name) => !before.has(name));
    await expect.poll(() => (opened().length < 5 ? [] : opened()), waiting).toEqual([]);
  },
);
