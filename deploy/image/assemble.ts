/** Makes the root file system of the image, out of npm's packages and Debian's: `assemble.ts <folder>` fills `root` and `state` in it. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, relative } from "node:path";
import { build, external } from "../../bin/build.ts";
import { root as checkout } from "../../bin/steps.ts";
import { closureOf, foreignPrebuilds, nodePackage, packagesOf } from "./packages.ts";
import { type DebianPackage, softwareBill } from "./software-bill.ts";

/** What Node is linked to, whom it believes, and what time it is elsewhere. */
const debianPackages = ["libc6", "libgcc-s1", "libstdc++6", "ca-certificates", "tzdata"];

/** Of those packages what nothing here reads: programs, and words for people. Licences stay. */
const leftOut = [
  "etc/ca-certificates",
  "etc/ld.so.conf.d",
  "sbin",
  "usr/bin",
  "usr/sbin",
  "usr/share/bug",
  "usr/share/ca-certificates",
  "usr/share/gcc",
  "usr/share/gdb",
  "usr/share/lintian",
  "usr/share/man",
  "usr/share/zoneinfo/right",
];
const leftOutFolders = /\/(?:gconv|audit|doc\/[^/]+\/(?!copyright$)[^/]+)$/;

/** Who runs it: the number that distroless images have for this as well. */
export const runsAs = { uid: 65_532, name: "nonroot" } as const;

export async function assemble(folder: string): Promise<void> {
  const root = join(folder, "root");
  rmSync(folder, { recursive: true, force: true });
  for (const made of [root, join(folder, "state")]) mkdirSync(made, { recursive: true });
  const debian = addDebian(root);
  addAccounts(root);

  const node = nodePackage();
  mkdirSync(join(root, "usr/bin"), { recursive: true });
  copyFileSync(node.binary, join(root, "usr/bin/node"));
  chmodSync(join(root, "usr/bin/node"), 0o755);

  const opt = join(root, "opt/latchkey");
  const inBundles = packagesOf(await build(opt));
  const beside = external.flatMap(closureOf);
  const bundled = inBundles.filter(({ folder }) => beside.every((one) => one.folder !== folder));
  for (const one of beside) {
    const there = join(opt, relative(checkout, one.folder));
    cpSync(one.folder, there, { recursive: true, filter: (path) => !isLeftOut(one.name, relative(one.folder, path)) });
    for (const foreign of foreignPrebuilds(there)) rmSync(foreign, { recursive: true });
  }
  await keepCompiled(opt, join(root, "usr/bin/node"));
  // Files may be private to the builder; in the image everyone can read them.
  execFileSync("chmod", ["-R", "a+rX,go-w", root]);

  const bill = softwareBill({ npm: [node, ...bundled, ...beside], debian });
  mkdirSync(join(root, "usr/share/sbom"), { recursive: true });
  for (const place of [join(root, "usr/share/sbom/latchkey.cdx.json"), join(folder, "latchkey.cdx.json")]) {
    writeFileSync(place, `${JSON.stringify(bill, undefined, 2)}\n`);
  }
}

/**
 * Runs the program once, so that V8's compiled code is in the image: the file system is read-only in a container. Node
 * looks for it in a folder that names the user's number.
 */
async function keepCompiled(opt: string, node: string): Promise<void> {
  const store = mkdtempSync(join(tmpdir(), "latchkey-store-"));
  try {
    const child = spawn(node, [join(opt, "latchkey.js"), "serve"], {
      stdio: ["ignore", "pipe", "inherit"],
      env: {
        ...{ LATCHKEY_DATA_LISTEN: "127.0.0.1:0", LATCHKEY_CONTROL_LISTEN: "127.0.0.1:0" },
        ...{ LATCHKEY_OPS_LISTEN: "127.0.0.1:0", LATCHKEY_STORE: `level:${join(store, "store")}` },
        LATCHKEY_SEAL_KEYS: `image:${Buffer.alloc(32).toString("base64")}`,
      },
    });
    const ended = once(child, "exit");
    let said = "";
    for await (const chunk of child.stdout) {
      said += chunk;
      // A second signal would end it at once.
      if (!child.killed && said.includes('"phase":"ready"')) child.kill("SIGTERM");
    }
    const [code] = await ended;
    const compiled = join(opt, "compiled");
    if (code !== 0 || !existsSync(compiled)) throw new Error(`the built program could not be started: ${said}`);
    for (const name of readdirSync(compiled)) {
      renameSync(join(compiled, name), join(compiled, name.replace(/-\d+$/, `-${runsAs.uid}`)));
    }
  } finally {
    rmSync(store, { recursive: true });
  }
}

/** C++ that was compiled already, what belongs to other packages, and a program that lies in a package of its own as well. */
const isLeftOut = (name: string, path: string): boolean =>
  /^(?:deps|node_modules)(?:\/|$)|\.(?:cc|gyp)$/.test(path) || (name === "esbuild" && /^bin(?:\/|$)/.test(path));

function addDebian(root: string): DebianPackage[] {
  const downloads = mkdtempSync(join(tmpdir(), "latchkey-debian-"));
  try {
    // apt drops to an account of its own, which must be able to enter the folder.
    chmodSync(downloads, 0o777);
    execFileSync("apt-get", ["download", "-qq", ...debianPackages], { cwd: downloads, stdio: ["ignore", 2, 2] });
    const status = join(root, "var/lib/dpkg/status.d");
    mkdirSync(status, { recursive: true });
    const found = readdirSync(downloads).map((file): DebianPackage => {
      const path = join(downloads, file);
      execFileSync("dpkg-deb", ["-x", path, root]);
      const about = execFileSync("dpkg-deb", ["-f", path], { encoding: "utf8" });
      const field = (name: string) => new RegExp(`^${name}: (.*)$`, "m").exec(about)?.[1] ?? "";
      // Scanners look here for the packages of an image without dpkg.
      writeFileSync(join(status, field("Package")), about);
      return { name: field("Package"), version: field("Version"), architecture: field("Architecture"), path };
    });
    const withHashes = found.map((one) => ({ ...one, sha256: sha256Of(one.path) }));
    writeFileSync(join(root, "etc/ssl/certs/ca-certificates.crt"), authoritiesIn(root));
    for (const path of leftOut) rmSync(join(root, path), { recursive: true, force: true });
    const all = readdirSync(root, { recursive: true, withFileTypes: true });
    for (const { parentPath, name } of all) {
      const path = join(parentPath, name);
      if (leftOutFolders.test(path)) rmSync(path, { recursive: true, force: true });
    }
    copyFileSync("/etc/os-release", join(root, "etc/os-release"));
    return withHashes;
  } finally {
    rmSync(downloads, { recursive: true });
  }
}

const sha256Of = (path: string): string => execFileSync("sha256sum", [path], { encoding: "utf8" }).slice(0, 64);

/** One file of them all, as `update-ca-certificates` would make it. */
function authoritiesIn(root: string): string {
  const folder = join(root, "usr/share/ca-certificates/mozilla");
  mkdirSync(join(root, "etc/ssl/certs"), { recursive: true });
  return readdirSync(folder)
    .sort()
    .filter((file) => file.endsWith(".crt"))
    .map((file) => readFileSync(join(folder, file), "utf8"))
    .join("");
}

function addAccounts(root: string): void {
  const { uid, name } = runsAs;
  const files: Readonly<Record<string, string>> = {
    passwd: `root:x:0:0:root:/root:/sbin/nologin\n${name}:x:${uid}:${uid}:${name}:/var/lib/latchkey:/sbin/nologin\n`,
    group: `root:x:0:\n${name}:x:${uid}:\n`,
    "nsswitch.conf": "hosts: files dns\n",
  };
  for (const [file, text] of Object.entries(files)) writeFileSync(join(root, "etc", file), text);
}

if (import.meta.main) {
  const [folder] = process.argv.slice(2);
  if (folder === undefined) throw new Error(`usage: ${basename(import.meta.filename)} <folder>`);
  await assemble(folder);
}
