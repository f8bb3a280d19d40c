import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { javaTrustStore } from "./java-trust-store.ts";
import { nodeAgents } from "./node-agents.ts";

/** Files that a program finds by its environment. */
export interface ProgramFiles {
  /** PEM file of all authorities that the program trusts. */
  readonly bundle: string;
  /** The same as a trust store of Java. */
  readonly trustStore: string;
  /** Program that Node loads first. */
  readonly nodeAgents: string;
  /** Folder for a browser's profile. */
  readonly browser: string;
}

/** Writes the files into a folder of the program's own. */
export async function writeProgramFiles(folder: string, pem: string): Promise<ProgramFiles> {
  const at = (name: string) => join(folder, name);
  const files = {
    bundle: at("ca.pem"),
    trustStore: at("ca.jks"),
    nodeAgents: at("agents.cjs"),
    browser: at("browser"),
  };
  await writeFile(files.bundle, pem);
  await writeFile(files.trustStore, javaTrustStore(pem, Date.now()));
  await writeFile(files.nodeAgents, nodeAgents);
  return files;
}
