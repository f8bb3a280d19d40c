import { timestampMs } from "@bufbuild/protobuf/wkt";
import { namesNothing } from "../core/names.ts";
import type { Collections } from "./collections.ts";

/**
 * When an environment was made; undefined: there is none. Of one that was deleted, and made again under its name,
 * nothing comes back.
 */
export async function beginningOf(
  environment: string,
  { environments }: Pick<Collections, "environments">,
): Promise<number | undefined> {
  const found = namesNothing(environment) ? undefined : await environments.get(environment);
  if (found === undefined) return undefined;
  return found.value.createdAt === undefined ? 0 : timestampMs(found.value.createdAt);
}
