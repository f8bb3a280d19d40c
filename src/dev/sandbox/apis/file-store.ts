import { randomBytes } from "node:crypto";
import { refuse } from "../call.ts";
import type { Person } from "../people.ts";

export interface FileContent {
  readonly name: string;
  readonly mimeType: string;
  readonly content: Buffer;
}

export interface StoredFile extends FileContent {
  readonly id: string;
  readonly version: number;
  readonly modifiedTime: string;
}

/** Each user's files, in memory. */
export interface FileStore {
  ownedBy(owner: Person): readonly StoredFile[];
  /** Throws 404 if the user has no such file. */
  get(owner: Person, id: string): StoredFile;
  /** Creates a file, or a new version of `before`. Throws 403 when the store is full. */
  put(owner: Person, file: FileContent, before?: StoredFile): StoredFile;
  delete(owner: Person, file: StoredFile): void;
  reset(): void;
}

const maxStoredBytes = 268_435_456;

export function createFileStore(now: () => number): FileStore {
  const filesByOwner = new Map<string, Map<string, StoredFile>>();
  let storedBytes = 0;

  function filesOf(owner: Person): Map<string, StoredFile> {
    const found = filesByOwner.get(owner.id);
    if (found !== undefined) return found;
    const files = new Map(sampleFiles(owner).map((file) => [file.id, file]));
    for (const { content } of files.values()) storedBytes += content.length;
    filesByOwner.set(owner.id, files);
    return files;
  }

  return {
    ownedBy: (owner) => [...filesOf(owner).values()],
    get(owner, id) {
      const file = filesOf(owner).get(id);
      if (file === undefined) throw refuse(404, "notFound", `File not found: ${id}.`);
      return file;
    },
    put(owner, { name, mimeType, content }, before) {
      const grown = content.length - (before?.content.length ?? 0);
      if (storedBytes + grown > maxStoredBytes)
        throw refuse(403, "storageQuotaExceeded", "The sandbox holds no more than 256 MiB.");
      storedBytes += grown;
      const file: StoredFile = {
        id: before?.id ?? randomBytes(12).toString("base64url"),
        name,
        mimeType,
        content,
        version: (before?.version ?? 0) + 1,
        modifiedTime: new Date(now()).toISOString(),
      };
      filesOf(owner).set(file.id, file);
      return file;
    },
    delete(owner, file) {
      filesOf(owner).delete(file.id);
      storedBytes -= file.content.length;
    },
    reset() {
      filesByOwner.clear();
      storedBytes = 0;
    },
  };
}

/** The files that a user starts with: enough for several pages. */
const sampleFiles = (owner: Person): readonly StoredFile[] =>
  Array.from({ length: 25 }, (_, i) => ({
    id: `file-${String(i + 1).padStart(2, "0")}`,
    name: `notes-${i + 1}.txt`,
    mimeType: "text/plain",
    content: Buffer.from(`File ${i + 1} of ${owner.name}.\n`.repeat(i + 1)),
    version: 1,
    modifiedTime: new Date(Date.UTC(2026, 0, i + 1)).toISOString(),
  }));
