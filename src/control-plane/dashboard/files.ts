import { readFile } from "node:fs/promises";
import { extname, join } from "node:path";

/** A file of the dashboard, as it is sent. */
export interface PageFile {
  readonly bytes: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
  ".svg": "image/svg+xml",
  ".png": "image/png",
  ".txt": "text/plain; charset=utf-8",
  ".woff2": "font/woff2",
};

/** Names hold no `..` and no hidden file, so that a path never leads out of the folder. */
const nameForm = /^(?:assets\/)?[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)+$/;
/** Names with a hash of the content: `app-X3FQ7A2B.js`. */
const hashedForm = /^assets\/.+-[A-Z0-9]{8}\.[a-z0-9]+$/;

const encodings = [
  { coding: "br", suffix: ".br" },
  { coding: "gzip", suffix: ".gz" },
] as const;

interface FileRequest {
  readonly folder: string;
  /** The path below `/ui/`. */
  readonly name: string;
  /** The `Accept-Encoding` header. */
  readonly accepted: string;
}

/** Reads a file in the best encoding that the browser accepts. Returns undefined if there is none of this name. */
export async function readPageFile({ folder, name, accepted }: FileRequest): Promise<PageFile | undefined> {
  const type = nameForm.test(name) ? types[extname(name)] : undefined;
  if (type === undefined) return undefined;
  const headers = {
    "content-type": type,
    "cache-control": hashedForm.test(name) ? "public, max-age=31536000, immutable" : "no-store",
    vary: "accept-encoding",
  };
  for (const { coding, suffix } of encodings) {
    if (!accepts(accepted, coding)) continue;
    const bytes = await contentOf(join(folder, name + suffix));
    if (bytes !== undefined) return { bytes, headers: { ...headers, "content-encoding": coding } };
  }
  const bytes = await contentOf(join(folder, name));
  return bytes && { bytes, headers };
}

/** `gzip, br;q=0` accepts gzip alone. */
const accepts = (accepted: string, coding: string): boolean =>
  accepted.split(",").some((part) => {
    const [name = "", ...parameters] = part.split(";").map((one) => one.trim().toLowerCase());
    return name === coding && !parameters.some((one) => /^q=0(?:\.0*)?$/.test(one));
  });

async function contentOf(path: string): Promise<Uint8Array | undefined> {
  try {
    return await readFile(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") return undefined;
    throw error;
  }
}
