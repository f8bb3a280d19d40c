import { expect, it } from "vitest";
import { createSyncScripts } from "../../../../src/broker/syncs/sync-scripts.ts";
import { dailySync } from "./daily-sync.ts";

const script = (integration: string, name: string) => ({ ...dailySync, integration, name });

const all = [script("calendar", "events"), script("calendar", "channels"), script("crm", "contacts")];
const syncScripts = createSyncScripts({
  all: () => all,
  find: ({ integration, name }) => all.find((one) => one.integration === integration && one.name === name),
});
const named = (...names: readonly string[]) =>
  syncScripts.named("calendar", names).map(({ script: { name }, variant }) => `${name}::${variant}`);

it("takes no names for all syncs of the integration, each with its base variant", () => {
  expect(named()).toEqual(["events::base", "channels::base"]);
});

it("takes a sync once for a name that is repeated, with or without its base variant", () => {
  expect(named("events", "events::base", "events::", "events::eu")).toEqual(["events::base", "events::eu"]);
});

it("refuses a name that the integration does not have", () => {
  expect(() => named("contacts")).toThrow('the integration "calendar" has no sync "contacts"');
});
