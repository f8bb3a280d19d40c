import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { openDatabase, putInto } from "../../../../src/store/level/database.ts";
import { temporaryFolder } from "../../../support/sidecar/harness.ts";

it.each([true, false])(
  "puts into a batch in order with its other operations (the library has _put: %s)",
  async (has) => {
    const db = await openDatabase(join(await temporaryFolder(), "db"), { create: true });
    onTestFinished(() => db.close());
    const batch = db.batch();
    const without = { put: (key: string, value: Uint8Array) => batch.put(key, value) } as typeof batch;
    const put = putInto(has ? batch : without);
    const [first, second] = ["é 1", "2"].map((one) => new TextEncoder().encode(one));
    put("ä", first ?? new Uint8Array());
    batch.del("ä");
    put("b", first ?? new Uint8Array());
    put("ä", second ?? new Uint8Array());
    await batch.put("last", new Uint8Array()).write({ sync: true });
    const found = await db.iterator().all();
    expect(found.map(([key, value]) => [key, new TextDecoder().decode(value)])).toEqual([
      ["b", "é 1"],
      ["last", ""],
      ["ä", "2"],
    ]);
  },
);
