import { rename, rm, writeFile } from "node:fs/promises";
import { systemAuthorities } from "../base/certificates/system-authorities.ts";
import { randomId } from "../base/ids.ts";
import type { World } from "../base/world.ts";
import type { AuthorityCertificate } from "../gen/latchkey/v1/authority_pb.ts";
import { StartFailure } from "./start-failure.ts";

interface AuthorityFileOptions {
  readonly path: string | undefined;
  /** What programs must trust now. */
  readonly certificates: () => readonly AuthorityCertificate[];
  /** Calls the function when that changes. */
  readonly listen: (onChange: () => void) => unknown;
  readonly world: World;
}

/**
 * Writes the certificates that programs behind the forward proxy must trust into a file, and replaces it after each
 * rotation: for programs in another container, which share the folder.
 */
export async function keepAuthorityFile({ path, certificates, listen, world }: AuthorityFileOptions): Promise<void> {
  if (path === undefined) return;

  async function write(to: string): Promise<void> {
    const pem = certificates()
      .map((one) => one.pem)
      .join("");
    const text = pem + (await systemAuthorities({}));
    // In one step: a program that starts now must not read half of it.
    const part = `${to}.${randomId()}`;
    try {
      await writeFile(part, text, { mode: 0o644 });
      await rename(part, to);
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
  }

  if (certificates().length > 0) {
    await write(path).catch((cause: Error) => {
      throw new StartFailure(`LATCHKEY_FORWARD_PROXY_CA_FILE cannot be written: ${cause.message}`, { cause });
    });
  }
  // One after the other, so that the last one counts.
  let writing = Promise.resolve();
  listen(() => {
    writing = writing
      .then(() => write(path))
      .catch((err: unknown) => world.log.error("the file of the authorities was not replaced", { path, err }));
  });
}
