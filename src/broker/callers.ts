import { type IdentityRoom, openIdentities } from "./identities/open.ts";
import { openSetup, type SetupRoom } from "./setup/open.ts";

/** Setup, whose `access` knows callers by identities as well as by keys. */
export interface CallerRoom extends SetupRoom, IdentityRoom {}

/** Opens keys and identities, which the listeners ask together. */
export async function openCallers(options: Parameters<typeof openSetup>[0]): Promise<CallerRoom> {
  const setup = await openSetup(options);
  return { ...setup, ...openIdentities({ access: setup.access, world: options.world }) };
}
