#!/usr/bin/env node
// Runs a program of this checkout: installs the packages of package-lock.json if they are missing, then starts
// Node 24, the machine's own or the one from npm. Works with any Node from 20 on and nothing installed.
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** The first version that `engines` of package.json accepts, `>=24.12`. */
const wanted = versionIn(JSON.parse(readFileSync(join(root, "package.json"), "utf8")).engines.node);
/** Packages with the binary of one platform; npm installs the one that fits. */
const platformPackages = [
  `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`,
  `node-bin-${process.platform}-${process.arch}`,
];

install();
run(nodeBinary(), process.argv.slice(2));

function install() {
  const stamp = join(root, "node_modules", ".installed");
  const lock = createHash("sha256")
    .update(readFileSync(join(root, "package-lock.json")))
    .digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === lock) return;
  process.stderr.write("latchkey: installing packages (npm ci)\n");
  const npm = process.platform === "win32" ? "npm.cmd" : "npm";
  // npm's output goes to stderr: stdout belongs to the program.
  const { status } = spawnSync(npm, ["ci", "--no-audit", "--no-fund", "--loglevel=error", "--progress=false"], {
    cwd: root,
    stdio: ["ignore", 2, 2],
    shell: process.platform === "win32",
    // `npm test` puts npm's settings into the environment, and these would make `npm ci` skip packages.
    env: Object.fromEntries(
      Object.entries(process.env).filter(([name]) => !/^npm_config_(omit|production)$/i.test(name)),
    ),
  });
  if (status !== 0) process.exit(status ?? 1);
  writeFileSync(stamp, lock);
}

function nodeBinary() {
  if (isGood(process.versions.node)) return process.execPath;
  const require = createRequire(join(root, "package.json"));
  for (const name of platformPackages) {
    try {
      const described = require.resolve(`${name}/package.json`);
      const folder = dirname(described);
      if (!isGood(JSON.parse(readFileSync(described, "utf8")).version)) continue;
      const binary = join(folder, "bin", process.platform === "win32" ? "node.exe" : "node");
      if (existsSync(binary)) return binary;
    } catch {
      // Not installed on this platform: try the next name.
    }
  }
  process.stderr.write(
    `latchkey: needs Node ${wanted.join(".")} or later; this is ${process.version}, and npm has none for ${process.platform} ${process.arch}\n`,
  );
  process.exit(1);
}

function versionIn(text) {
  const [, major = "0", minor = "0"] = /(\d+)\.(\d+)/.exec(text) ?? [];
  return [Number(major), Number(minor)];
}

/** Whether a version is at least the wanted one. */
function isGood(text) {
  const [major, minor] = versionIn(text);
  return major > wanted[0] || (major === wanted[0] && minor >= wanted[1]);
}

function run(node, args) {
  const path = `${dirname(node)}${process.platform === "win32" ? ";" : ":"}${process.env.PATH}`;
  const child = spawn(node, args, { stdio: "inherit", env: { ...process.env, PATH: path } });
  // A terminal sends Ctrl-C to the child too; other signals reach only this process and are passed on.
  for (const signal of ["SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
  process.on("SIGINT", () => {});
  child.on("exit", (code, signal) => {
    if (signal === null) process.exit(code ?? 1);
    for (const name of ["SIGTERM", "SIGHUP", "SIGINT"]) process.removeAllListeners(name);
    process.kill(process.pid, signal);
  });
}
