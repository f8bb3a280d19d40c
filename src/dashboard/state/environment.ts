/** The environment that the page shows: in the address, so that a link leads to the same one. */
import { computed, signal } from "@preact/signals";
import type { Environment } from "../../gen/latchkey/v1/environment_pb.ts";
import { environments } from "./clients.ts";
import { queryValue } from "./router.ts";
import { caller } from "./session.ts";

/** The environments that the caller may see. */
export const knownEnvironments = signal<readonly Environment[]>([]);

export const environmentName = computed(
  () => caller.value?.environment || queryValue("env") || knownEnvironments.value[0]?.name || "",
);

/** Reads the list again, after a change. */
export async function loadEnvironments(): Promise<void> {
  const found: Environment[] = [];
  let pageToken = "";
  do {
    const page = await environments.listEnvironments({ pageSize: 200, pageToken });
    found.push(...page.environments);
    pageToken = page.nextPageToken;
  } while (pageToken !== "" && found.length < 1_000);
  knownEnvironments.value = found;
}
