import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createLog } from "../../../src/base/log.ts";
import { createMetrics } from "../../../src/base/metrics/metrics.ts";
import { copyInto } from "../../../src/cli/offline/copy.ts";
import type { NamedStore } from "../../../src/cli/offline/location.ts";
import { move } from "../../../src/cli/offline/move.ts";
import { createPhases } from "../../../src/cli/terminal/phases.ts";
import type { Backend, Entry, SnapshotContent } from "../../../src/store/contract.ts";
import { openLevelStore } from "../../../src/store/level/level.ts";
import { temporaryFolder } from "../../support/sidecar/harness.ts";
import { memoryTerminal } from "./memory-terminal.ts";

/** Failures between two stores, tested with stubs, since real stores do not fail on demand. */

const log = createLog({ level: "error", format: "json", write: () => {} });
const bytes = (text: string) => new TextEncoder().encode(text);

async function newPlace(): Promise<NamedStore> {
  const folder = await temporaryFolder();
  return { location: { kind: "level", folder }, name: `level:${folder}` };
}

async function openAt({ location }: NamedStore): Promise<Backend> {
  if (location.kind !== "level") throw new Error("it is a folder");
  const store = await openLevelStore({ folder: join(location.folder, "store"), log, metrics: createMetrics() });
  onTestFinished(() => store.close());
  return store;
}

async function beforeMove() {
  const [from, to] = [await newPlace(), await newPlace()];
  const source = await openAt(from);
  await source.commit([
    { key: "a", value: bytes("1") },
    { key: "b", value: bytes("2") },
  ]);
  const terminal = memoryTerminal();
  return { from, to, source, terminal, phases: createPhases(terminal, { quiet: true }) };
}

const late = { key: "late", value: bytes("3") };

it("does not retire a store that was written to while it was copied", async () => {
  const { source, terminal, ...rest } = await beforeMove();
  let isRetired = false;
  const busy: Backend = {
    ...source,
    async snapshot() {
      const snapshot = await source.snapshot();
      async function* pages() {
        yield* snapshot.pages();
        await source.commit([late]);
      }
      return { ...snapshot, pages };
    },
    async retire() {
      isRetired = true;
    },
  };
  await expect(move({ ...rest, terminal, source: busy })).rejects.toThrow(
    /in use: it was at revision 1 and is at 2 now/,
  );
  expect(isRetired).toBe(false);
  expect(terminal.err()).toContain("the old store is unchanged");
});

it("reports that neither store may be served after a commit at the moment of retirement", async () => {
  const { source, terminal, ...rest } = await beforeMove();
  const busy: Backend = {
    ...source,
    async retire(to) {
      await source.commit([late]);
      await source.retire(to);
    },
  };
  await expect(move({ ...rest, terminal, source: busy })).rejects.toThrow(/is in use/);
  expect(terminal.err()).toContain("serve neither");
});

it("does not claim to know whether a store was retired that did not answer", async () => {
  const { source, terminal, ...rest } = await beforeMove();
  const broken: Backend = { ...source, retire: () => Promise.reject(new Error("the connection broke")) };
  await expect(move({ ...rest, terminal, source: broken })).rejects.toThrow("the connection broke");
  expect(terminal.err()).toContain("The old store may be retired");
});

/** A store that stores changed entries instead of those it is given. */
function forgetful(store: Backend, change: (page: readonly Entry[]) => readonly Entry[]): Backend {
  return {
    ...store,
    fill({ revision, pages }: SnapshotContent) {
      async function* changed() {
        for await (const page of pages) yield change(page);
      }
      return store.fill({ revision, pages: changed() });
    },
  };
}

it.each([
  ["loses an entry", (page: readonly Entry[]) => page.slice(1)],
  ["changes a value", (page: readonly Entry[]) => page.map((entry) => ({ ...entry, value: bytes("x") }))],
  ["forgets a revision", (page: readonly Entry[]) => page.map((entry) => ({ ...entry, revision: 1 }))],
])("does not trust a store that %s", async (_what, change) => {
  const { to, terminal, phases } = await beforeMove();
  async function* pages() {
    yield [
      { key: "a", value: bytes("1"), revision: 3 },
      { key: "b", value: bytes("2"), revision: 4 },
    ];
  }
  const target = forgetful(await openAt(to), change);
  const copy = copyInto({ content: { revision: 4, pages: pages() }, total: 2, to, target, terminal, phases });
  await expect(copy).rejects.toThrow(/differs from what was written to it/);
});
