import { expect, it } from "vitest";
import { type DoorwayName, startDoorways } from "../../support/peers/doorways.ts";
import { startProvider } from "../../support/peers/provider.ts";
import { ambiguousRequests, disguisedCodings } from "../../support/wire/smuggling.ts";
import { failuresOf, leftOver, troubleOf } from "../../support/wire/smuggling-run.ts";

/** Every way by which HTTP/1.1 comes to a provider. */
const names: readonly DoorwayName[] = ["/proxy", "alias", "absolute form", "tunnel"];

async function failuresOfAll(attempts: Parameters<typeof failuresOf>[0]): Promise<Record<string, string[]>> {
  const provider = await startProvider();
  const sidecar = await startDoorways(provider.port);
  const failures: Record<string, string[]> = {};
  await Promise.all(
    names.map(async (name) => {
      failures[name] = await failuresOf(attempts, { provider, door: sidecar.doorways[name] });
    }),
  );
  await expect.poll(() => leftOver(provider)).toEqual([]);
  expect(await troubleOf(sidecar)).toEqual([]);
  return failures;
}

const none = Object.fromEntries(names.map((name) => [name, []]));

it("P09 refuses 134 disguised codings beside a length, whichever of the two the body follows", async () => {
  const attempts = disguisedCodings();
  expect(attempts).toHaveLength(2 * 134);
  expect(await failuresOfAll(attempts)).toEqual(none);
});

it("P10 relays a request that has one meaning, once and as it is, and refuses every other", async () => {
  expect(await failuresOfAll(ambiguousRequests())).toEqual(none);
});
