import { hash } from "node:crypto";
import type { AccessCheck } from "../auth/access.ts";
import { type Call, json, objectOf, type SandboxAnswer } from "../call.ts";
import type { Person } from "../people.ts";
import type { SandboxRoute } from "../router.ts";
import type { FileStore, StoredFile } from "./file-store.ts";
import { fileDescription, uploadedFile } from "./file-upload.ts";
import { pageOf } from "./paging.ts";

interface FileRoutesOptions {
  readonly access: AccessCheck;
  readonly files: FileStore;
}

const maxFileBytes = 33_554_432;

const readScopes = ["drive", "drive.readonly", "drive.file", "drive.metadata"];
const downloadScopes = ["drive", "drive.readonly", "drive.file"];
const writeScopes = ["drive", "drive.file"];

/** The file API: files are listed, downloaded whole or in part, uploaded, described and deleted. */
export function fileRoutes({ access, files }: FileRoutesOptions): readonly SandboxRoute[] {
  const fileOf = (person: Person, { params }: Call) => files.get(person, params["id"] ?? "");

  function list(call: Call): SandboxAnswer {
    const { person } = access.require(call, readScopes);
    const size = { name: "pageSize", most: 1_000, otherwise: 100 };
    const { page, ...next } = pageOf(files.ownedBy(person), { query: call.query, size });
    return json({ kind: "drive#fileList", incompleteSearch: false, files: page.map(shown), ...next });
  }

  function read(call: Call): SandboxAnswer {
    const isDownload = call.query.get("alt") === "media";
    const file = fileOf(access.require(call, isDownload ? downloadScopes : readScopes).person, call);
    return notModified(file, call) ?? (isDownload ? download(file, call) : described(file));
  }

  function create(call: Call): SandboxAnswer {
    const { person } = access.require(call, writeScopes);
    return described(files.put(person, { ...fileDescription(objectOf(call)), content: Buffer.alloc(0) }));
  }

  function update(call: Call): SandboxAnswer {
    const { person } = access.require(call, writeScopes);
    const before = fileOf(person, call);
    return described(files.put(person, { ...before, ...fileDescription({ ...before, ...objectOf(call) }) }, before));
  }

  function remove(call: Call): SandboxAnswer {
    const { person } = access.require(call, writeScopes);
    files.delete(person, fileOf(person, call));
    return { status: 204 };
  }

  function upload(call: Call): SandboxAnswer {
    const { person } = access.require(call, writeScopes);
    return described(files.put(person, uploadedFile(call)));
  }

  return [
    { method: "GET", path: "/drive/v3/files", endpoint: "files", answer: list },
    { method: "GET", path: "/drive/v3/files/:id", endpoint: "files", answer: read },
    { method: "POST", path: "/drive/v3/files", endpoint: "files", answer: create },
    { method: "PATCH", path: "/drive/v3/files/:id", endpoint: "files", answer: update },
    { method: "DELETE", path: "/drive/v3/files/:id", endpoint: "files", answer: remove },
    {
      method: "POST",
      path: "/upload/drive/v3/files",
      endpoint: "upload",
      bodyLimit: maxFileBytes,
      answer: upload,
    },
  ];
}

const etagOf = ({ id, version, content }: StoredFile) =>
  `"${hash("sha256", `${id}:${version}:${content.length}`).slice(0, 20)}"`;

const described = (file: StoredFile): SandboxAnswer => json(shown(file), { headers: { etag: etagOf(file) } });

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

function notModified(file: StoredFile, { headers }: Call): SandboxAnswer | undefined {
  const known = (headers["if-none-match"] ?? "").split(",").map((etag) => etag.trim().replace(/^W\//, ""));
  if (!known.includes(etagOf(file)) && !known.includes("*")) return undefined;
  return { status: 304, headers: { etag: etagOf(file) } };
}

/** Serves one range (RFC 9110, section 14); a request for several ranges gets the whole file. */
function download(file: StoredFile, call: Call): SandboxAnswer {
  const { content } = file;
  const headers = { "content-type": file.mimeType, "accept-ranges": "bytes", etag: etagOf(file) };
  const ifRange = call.headers["if-range"];
  const range = ifRange === undefined || ifRange === etagOf(file) ? call.headers.range : undefined;
  const [, first = "", last = ""] = /^bytes=(\d*)-(\d*)$/.exec(range ?? "") ?? [];
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
