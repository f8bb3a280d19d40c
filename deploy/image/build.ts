/** Builds the image with buildah where no Docker engine runs: `build.ts <name> <folder>`. Runs the last stage of the Dockerfile over what `assemble.ts` made here. */
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root as checkout } from "../../bin/steps.ts";
import { version } from "../../src/base/version.ts";
import { assemble } from "./assemble.ts";

interface ImageOptions {
  readonly name: string;
  /** Receives `out`, `image` (an OCI layout) and buildah's own storage. */
  readonly folder: string;
}

/** Returns the folder of the image, in the layout of OCI. */
export async function buildImage({ name, folder }: ImageOptions): Promise<string> {
  const image = join(folder, "image");
  const context = join(folder, "context");
  for (const old of [image, context]) rmSync(old, { recursive: true, force: true });
  mkdirSync(join(context, "out"), { recursive: true });
  await assemble(join(context, "out"));
  const stages = readFileSync(join(checkout, "deploy/image/Dockerfile"), "utf8");
  writeFileSync(join(folder, "Dockerfile"), stages.slice(stages.indexOf("FROM scratch")));
  // Without overlay file systems and user namespaces, so that it also works in a container.
  const storage = ["--root", join(folder, "storage"), "--runroot", join(folder, "run"), "--storage-driver", "vfs"];
  const buildah = (...args: readonly string[]) =>
    execFileSync("buildah", [...storage, ...args], { stdio: ["ignore", 2, 2] });
  buildah(
    ...["build", "--isolation", "chroot", "--pull-never", "--timestamp", "0", "--tag", name],
    // Stands for the result of the first stages.
    ...["--build-context", `build=${context}`, "--file", join(folder, "Dockerfile"), context],
  );
  buildah("push", name, `oci:${image}:${version}`);
  return image;
}

if (import.meta.main) {
  const [name, folder] = process.argv.slice(2);
  if (name === undefined || folder === undefined) throw new Error("usage: build.ts <name> <folder>");
  process.stdout.write(`${await buildImage({ name, folder })}\n`);
}
