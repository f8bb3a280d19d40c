import { open, readFile, rename } from "node:fs/promises";
import { join } from "node:path";
import { type Restoration, StoreRefused } from "../contract.ts";

/**
 * Records that a store was created here, and its ID: without this file, a folder that lost its files would look like a
 * new one.
 */
export interface Marker {
  readonly storeId: string;
  readonly format: number;
  readonly createdAt: string;
  /** Where the store was moved. The data here is outdated since then. */
  readonly movedTo?: string;
  /** The backup that the store was restored from. */
  readonly restoration?: Restoration;
}

export const markerName = "latchkey.json";
/** The marker of an open store. */
export interface MarkerFile {
  readonly current: Marker;
  update(changes: Partial<Pick<Marker, "movedTo" | "restoration">>): Promise<void>;
}

export function createMarkerFile(folder: string, marker: Marker): MarkerFile {
  let current = marker;
  return {
    get current() {
      return current;
    },
    async update(changes) {
      const next = { ...current, ...changes };
      await writeMarker(folder, next);
      current = next;
    },
  };
}

export async function readMarker(folder: string): Promise<Marker | undefined> {
  const path = join(folder, markerName);
  const text = await readFile(path, "utf8").catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (text === undefined) return undefined;
  const marker = parse(text);
  if (typeof marker?.storeId !== "string" || typeof marker.format !== "number") {
    throw new StoreRefused(`${path} is damaged; restore the last backup`);
  }
  return marker;
}

function parse(text: string): Marker | undefined {
  try {
    return JSON.parse(text) as Marker;
  } catch {
    return undefined;
  }
}

/** Writes the marker atomically. */
export async function writeMarker(folder: string, marker: Marker): Promise<void> {
  const path = join(folder, markerName);
  const file = await open(`${path}.new`, "w", 0o600);
  try {
    await file.writeFile(`${JSON.stringify(marker, undefined, 2)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(`${path}.new`, path);
  const directory = await open(folder);
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
