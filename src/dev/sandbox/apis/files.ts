import { hash, randomBytes } from "node:crypto";
import type { AccessCheck } from "../auth/access.ts";
import { type Call, json, mediaType, objectOf, refuse, type SandboxAnswer } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import { pageOf } from "./paging.ts";

interface StoredFile {
  readonly id: string;
  readonly name: string;
  readonly mimeType: string;
  readonly content: Buffer;
  readonly version: number;
  readonly modifiedTime: string;
}

/** Each user's files: listed, downloaded, also in part, uploaded and deleted. */
export interface Files {
  readonly routes: readonly SandboxRoute[];
  reset(): void;
}

interface FilesOptions {
  readonly now: () => number;
  readonly access: AccessCheck;
}

/** In memory all of it, so that there must be an end. */
const largestFile = 33_554_432;
const mostStored = 268_435_456;

const toRead = ["drive", "drive.readonly", "drive.file", "drive.metadata"];
const toDownload = ["drive", "drive.readonly", "drive.file"];
const toWrite = ["drive", "drive.file"];

export function createFiles({ now, access }: FilesOptions): Files {
  const owned = new Map<string, Map<string, StoredFile>>();
  let stored = 0;

  /** What a user finds there at first: enough for several pages. */
  function of(person: Person): Map<string, StoredFile> {
    const found = owned.get(person.id);
    if (found !== undefined) return found;
    const first = Array.from({ length: 25 }, (_, i): [string, StoredFile] => {
      const id = `file-${String(i + 1).padStart(2, "0")}`;
      const content = Buffer.from(`File ${i + 1} of ${person.name}.\n`.repeat(i + 1));
      const modifiedTime = new Date(Date.UTC(2026, 0, i + 1)).toISOString();
      return [id, { id, name: `notes-${i + 1}.txt`, mimeType: "text/plain", content, version: 1, modifiedTime }];
    });
    const files = new Map(first);
    for (const { content } of files.values()) stored += content.length;
    owned.set(person.id, files);
    return files;
  }

  function required(person: Person, { params }: Call): StoredFile {
    const file = of(person).get(params["id"] ?? "");
    if (file === undefined) throw refuse(404, "notFound", `File not found: ${params["id"]}.`);
    return file;
  }

  function put(
    person: Person,
    { name, mimeType, content }: Pick<StoredFile, "name" | "mimeType" | "content">,
    before?: StoredFile,
  ): SandboxAnswer {
    const grown = content.length - (before?.content.length ?? 0);
    if (stored + grown > mostStored)
      throw refuse(403, "storageQuotaExceeded", "The sandbox holds no more than 256 MiB.");
    stored += grown;
    const file: StoredFile = {
      id: before?.id ?? randomBytes(12).toString("base64url"),
      name,
      mimeType,
      content,
      version: (before?.version ?? 0) + 1,
      modifiedTime: new Date(now()).toISOString(),
    };
    of(person).set(file.id, file);
    return json(shown(file), { headers: { etag: etagOf(file) } });
  }

  return {
    routes: [
      {
        method: "GET",
        path: "/drive/v3/files",
        endpoint: "files",
        answer(call) {
          const { person } = access.require(call, toRead);
          const size = { name: "pageSize", most: 1_000, otherwise: 100 };
          const { page, ...next } = pageOf([...of(person).values()], { query: call.query, size });
          return json({ kind: "drive#fileList", incompleteSearch: false, files: page.map(shown), ...next });
        },
      },
      {
        method: "GET",
        path: "/drive/v3/files/:id",
        endpoint: "files",
        answer(call) {
          const isDownload = call.query.get("alt") === "media";
          const file = required(access.require(call, isDownload ? toDownload : toRead).person, call);
          return isDownload
            ? download(file, call)
            : (conditional(file, call) ?? json(shown(file), { headers: { etag: etagOf(file) } }));
        },
      },
      {
        method: "POST",
        path: "/drive/v3/files",
        endpoint: "files",
        answer(call) {
          const { person } = access.require(call, toWrite);
          return put(person, { ...describedBy(objectOf(call)), content: Buffer.alloc(0) });
        },
      },
      {
        method: "PATCH",
        path: "/drive/v3/files/:id",
        endpoint: "files",
        answer(call) {
          const { person } = access.require(call, toWrite);
          const before = required(person, call);
          return put(person, { ...before, ...describedBy({ ...before, ...objectOf(call) }) }, before);
        },
      },
      {
        method: "DELETE",
        path: "/drive/v3/files/:id",
        endpoint: "files",
        answer(call) {
          const { person } = access.require(call, toWrite);
          const file = required(person, call);
          of(person).delete(file.id);
          stored -= file.content.length;
          return { status: 204 };
        },
      },
      {
        method: "POST",
        path: "/upload/drive/v3/files",
        endpoint: "upload",
        bodyLimit: largestFile,
        answer(call) {
          const { person } = access.require(call, toWrite);
          return put(person, uploaded(call));
        },
      },
    ],
    reset() {
      owned.clear();
      stored = 0;
    },
  };
}

const etagOf = ({ id, version, content }: StoredFile) =>
  `"${hash("sha256", `${id}:${version}:${content.length}`).slice(0, 20)}"`;

const shown = (file: StoredFile) => ({
  kind: "drive#file",
  id: file.id,
  name: file.name,
  mimeType: file.mimeType,
  size: String(file.content.length),
  md5Checksum: hash("md5", file.content),
  version: String(file.version),
  modifiedTime: file.modifiedTime,
});

function describedBy({ name, mimeType }: Readonly<Record<string, unknown>>): Pick<StoredFile, "name" | "mimeType"> {
  return {
    name: typeof name === "string" ? name.slice(0, 255) : "Untitled",
    mimeType:
      typeof mimeType === "string" && /^[\w.+-]+\/[\w.+-]+$/.test(mimeType) ? mimeType : "application/octet-stream",
  };
}

/** `uploadType=media`: the body is the file. `multipart`: its description, and then the file (RFC 2387). */
function uploaded(call: Call): Pick<StoredFile, "name" | "mimeType" | "content"> {
  const { query, body } = call;
  if (query.get("uploadType") === "multipart") return multipart(call);
  return { ...describedBy({ name: query.get("name"), mimeType: mediaType(call) }), content: body };
}

function multipart({ headers, body }: Call): Pick<StoredFile, "name" | "mimeType" | "content"> {
  const [, quoted, bare] = /;\s*boundary=(?:"([^"]+)"|([^\s;]+))/i.exec(headers["content-type"] ?? "") ?? [];
  const boundary = quoted ?? bare;
  const parts = boundary === undefined ? [] : partsOf(body, boundary);
  const [description, content] = parts;
  if (description === undefined || content === undefined) {
    throw refuse(400, "badContent", "A multipart upload has two parts: a description and the file.");
  }
  let described: unknown;
  try {
    described = JSON.parse(description.content.toString("utf8"));
  } catch {
    throw refuse(400, "parseError", "The first part must be JSON.");
  }
  const { name, mimeType } = Object(described) as Record<string, unknown>;
  return { ...describedBy({ name, mimeType: mimeType ?? content.type }), content: content.content };
}

function partsOf(body: Buffer, boundary: string): { readonly type: string; readonly content: Buffer }[] {
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  // The first delimiter may stand at the very beginning.
  const whole = Buffer.concat([Buffer.from("\r\n"), body]);
  const parts: { type: string; content: Buffer }[] = [];
  for (let at = whole.indexOf(delimiter); at !== -1; ) {
    const next = whole.indexOf(delimiter, at + delimiter.length);
    if (next === -1) return parts;
    const part = whole.subarray(at + delimiter.length, next);
    const end = part.indexOf("\r\n\r\n");
    if (end !== -1) {
      const [, type = ""] = /content-type:\s*([^;\r\n]+)/i.exec(part.subarray(0, end).toString("latin1")) ?? [];
      parts.push({ type: type.trim(), content: Buffer.from(part.subarray(end + 4)) });
    }
    at = next;
  }
  return parts;
}

function conditional(file: StoredFile, { headers }: Call): SandboxAnswer | undefined {
  const known = (headers["if-none-match"] ?? "").split(",").map((one) => one.trim().replace(/^W\//, ""));
  if (!known.includes(etagOf(file)) && !known.includes("*")) return undefined;
  return { status: 304, headers: { etag: etagOf(file) } };
}

/** RFC 9110, section 14: one range; several are answered with the whole. */
function download(file: StoredFile, call: Call): SandboxAnswer {
  const unchanged = conditional(file, call);
  if (unchanged !== undefined) return unchanged;
  const { content } = file;
  const headers = { "content-type": file.mimeType, "accept-ranges": "bytes", etag: etagOf(file) };
  const ifRange = call.headers["if-range"];
  const asked = ifRange === undefined || ifRange === etagOf(file) ? call.headers.range : undefined;
  const [, first = "", last = ""] = /^bytes=(\d*)-(\d*)$/.exec(asked ?? "") ?? [];
  if (first === "" && last === "") return { status: 200, headers, body: content };
  const from = first === "" ? Math.max(0, content.length - Number(last)) : Number(first);
  const to = first === "" || last === "" ? content.length - 1 : Math.min(Number(last), content.length - 1);
  if (from > to) return { status: 416, headers: { "content-range": `bytes */${content.length}` } };
  return {
    status: 206,
    headers: { ...headers, "content-range": `bytes ${from}-${to}/${content.length}` },
    body: content.subarray(from, to + 1),
  };
}
