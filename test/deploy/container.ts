import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { chownSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { onTestFinished } from "vitest";

/** An image in the layout of OCI, read from its folder. */
export interface OciImage {
  /** The size of everything that a registry would serve. */
  readonly bytes: number;
  readonly config: {
    readonly User: string;
    readonly Entrypoint: readonly string[];
    readonly Cmd: readonly string[];
    readonly Env: readonly string[];
    readonly WorkingDir: string;
  };
  /** Keeps the owners and modes of the layers. */
  unpack(folder: string): void;
}

interface Described {
  readonly digest: string;
  readonly size: number;
}

export function readImage(folder: string): OciImage {
  const blob = (digest: string) => join(folder, "blobs", digest.replace(":", "/"));
  const json = <T>(path: string): T => JSON.parse(readFileSync(path, "utf8")) as T;
  const [first] = json<{ manifests: Described[] }>(join(folder, "index.json")).manifests;
  if (first === undefined) throw new Error("there is no image in the folder");
  const manifest = json<{ config: Described; layers: Described[] }>(blob(first.digest));
  return {
    bytes: [manifest.config, ...manifest.layers].reduce((sum, { size }) => sum + size, 0),
    config: json<{ config: OciImage["config"] }>(blob(manifest.config.digest)).config,
    unpack(to) {
      mkdirSync(to, { recursive: true });
      for (const { digest } of manifest.layers) execFileSync("tar", ["-xzpf", blob(digest), "-C", to]);
    },
  };
}

/** A process under the conditions of a container: process 1 of its own, a read-only root, no privileges, one volume. */
export interface Container {
  readonly said: () => string;
  says(text: RegExp): Promise<void>;
  /** Its state as seen from the system outside. */
  status(): Readonly<Record<string, string>>;
  children(): readonly string[];
  signal(name: NodeJS.Signals): void;
  readonly exited: Promise<number | null>;
}

interface ContainerOptions {
  readonly image: OciImage;
  readonly root: string;
  readonly volume: string;
  readonly env: Readonly<Record<string, string>>;
  readonly words?: readonly string[];
}

/** The steps of an OCI runtime, by hand. The network is this machine's. */
const enter = `
set -eu
root=$1 volume=$2 user=$3; shift 3
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount -t tmpfs -o mode=755 dev "$root/dev"
for device in null zero random urandom; do touch "$root/dev/$device"; mount --bind "/dev/$device" "$root/dev/$device"; done
mount --bind "$volume" "$root/var/lib/latchkey"
mount -o remount,bind,ro "$root"
exec setpriv --no-new-privs chroot --userspec="$user" --groups="" "$root" "$@"
`;

export function run({ image, root, volume, env, words = image.config.Cmd }: ContainerOptions): Container {
  for (const place of ["proc", "dev"]) mkdirSync(join(root, place), { recursive: true });
  mkdirSync(volume, { recursive: true });
  const [uid = 0, gid = 0] = image.config.User.split(":").map(Number);
  chownSync(volume, uid, gid);
  const inherited = Object.fromEntries(
    image.config.Env.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]),
  );
  const child: ChildProcess = spawn(
    "unshare",
    [
      ...["--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "/bin/sh", "-c", enter, "enter"],
      ...[root, volume, image.config.User, ...image.config.Entrypoint, ...words],
    ],
    { stdio: ["ignore", "pipe", "pipe"], env: { ...inherited, PATH: process.env["PATH"], ...env } },
  );
  let said = "";
  const listeners = new Set<() => void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      said += chunk;
      for (const listener of listeners) listener();
    });
  }
  let hasEnded = false;
  const exited = new Promise<number | null>((resolve) => {
    child.once("close", (code) => {
      hasEnded = true;
      for (const listener of listeners) listener();
      resolve(code);
    });
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const childrenOf = (pid: number | string) =>
    readdirSync(`/proc/${pid}/task`).flatMap((task) =>
      readFileSync(`/proc/${pid}/task/${task}/children`, "utf8").split(" ").filter(Boolean),
    );
  const inside = () => {
    const [pid] = childrenOf(child.pid ?? 0);
    if (pid === undefined) throw new Error(`nothing runs: ${said}`);
    return pid;
  };
  return {
    said: () => said,
    says: (text) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const isSaid = text.test(said);
          if (!isSaid && !hasEnded) return;
          listeners.delete(look);
          if (isSaid) resolve();
          else reject(new Error(`it ended without saying ${text}:\n${said}`));
        };
        listeners.add(look);
        look();
      }),
    status: () =>
      Object.fromEntries(
        readFileSync(`/proc/${inside()}/status`, "utf8")
          .split("\n")
          .map((line) => [line.slice(0, line.indexOf(":")), line.slice(line.indexOf(":") + 1).trim()]),
      ),
    children: () => childrenOf(inside()),
    signal: (name) => void process.kill(Number(inside()), name),
    exited,
  };
}
