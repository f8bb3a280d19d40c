import { Fault } from "../../base/fault.ts";
import type { SetupCollections } from "./setup-collections.ts";

/** Throws if an integration uses the provider. */
export async function requireUnusedProvider(
  { integrations }: Pick<SetupCollections, "integrations">,
  provider: string,
): Promise<void> {
  const [user] = await integrations.pageBy("provider", { under: [provider], limit: 1 });
  if (user === undefined) return;
  throw new Fault("in_use", `the provider "${provider}" is used by the integration "${user.value.key}"`);
}
