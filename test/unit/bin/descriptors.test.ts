import { readdirSync } from "node:fs";
import { join } from "node:path";
import { type DescEnum, type DescFile, type DescMessage, equals } from "@bufbuild/protobuf";
import { embedFileDesc } from "@bufbuild/protobuf/codegenv2";
import { nestedTypes } from "@bufbuild/protobuf/reflect";
import * as wellKnown from "@bufbuild/protobuf/wkt";
import { file_buf_validate_validate } from "@bufbuild/protovalidate/gen/buf/validate/validate_pb.js";
import { expect, it } from "vitest";
import { embeddedProto } from "../../../bin/descriptors/embedded-proto.ts";
import { lazyFile } from "../../../bin/descriptors/lazy-file.ts";
import { tableOf } from "../../../bin/descriptors/table.ts";
import { root } from "../../../bin/steps.ts";

const generated = join(root, "src/gen");
const modules = await Promise.all(
  readdirSync(generated, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith("_pb.ts"))
    .map((name) => import(join(generated, name)) as Promise<object>),
);
const isFile = (value: unknown): value is DescFile => (value as { kind?: unknown } | null)?.kind === "file";
const files = [
  wellKnown.file_google_protobuf_descriptor,
  file_buf_validate_validate,
  ...modules.flatMap((module) => Object.values(module)).filter(isFile),
];

const made = new Map<string, DescFile>();
/** The lazy form of a file and of what it imports. */
function lazy(file: DescFile): DescFile {
  const known = made.get(file.name);
  if (known !== undefined) return known;
  const fresh = lazyFile(tableOf(file), () => file.proto, file.dependencies.map(lazy));
  made.set(file.name, fresh);
  return fresh;
}

type Parts = Readonly<Record<string, unknown>>;
/** What leads to other descriptors, which are compared where they are declared. */
const references = new Set(["parent", "file", "message", "enum", "input", "output", "extendee", "oneof"]);
/** Lists and records of descriptors that are declared here; `members` are fields and oneofs. */
const isDescriptor = (value: unknown): value is Parts =>
  typeof value === "object" && value !== null && "kind" in value && "proto" in value;

const isType = (value: unknown): value is DescMessage | DescEnum =>
  isDescriptor(value) && (value["kind"] === "message" || value["kind"] === "enum");
const typesOf = (file: DescFile) => new Map([...nestedTypes(file)].map((type) => [type.typeName, type]));

/** Compares all that the library's descriptor has with the same of ours. */
function compare(theirs: Parts, ours: Parts, seen: Set<unknown>): void {
  if (seen.has(theirs)) return;
  seen.add(theirs);
  for (const [name, value] of Object.entries(theirs)) {
    const own = ours[name];
    const at = `${String(theirs)}: ${name}`;
    if (name === "proto") expect(own, at).toBe(value);
    else if (name === "toString") expect(String(ours)).toBe(String(theirs));
    else if (name === "getDefaultValue") {
      expect((own as (() => unknown) | undefined)?.(), at).toEqual((value as (() => unknown) | undefined)?.());
      expect(typeof own, at).toBe(typeof value);
    } else if (references.has(name)) {
      expect(String(own), at).toBe(String(value));
      // One descriptor for each type, as the library's caches need.
      if (isType(value)) expect(own, at).toBe(typesOf(lazy(value.file)).get(value.typeName));
    } else if (name === "dependencies") expect(String(own), at).toBe(String(value));
    else if (typeof value === "object" && value !== null) {
      expect(Object.keys(own as object), at).toEqual(Object.keys(value));
      for (const [key, one] of Object.entries(value)) {
        if (isDescriptor(one)) compare(one, (own as Parts)[key] as Parts, seen);
        else expect((own as Parts)[key], at).toEqual(one);
      }
    } else expect(own, at).toBe(value);
  }
}

it.each(files.map((file) => [file.name, file]))("makes for %s what the library makes", (_, file) => {
  const seen = new Set<unknown>();
  compare(file as unknown as Parts, lazy(file) as unknown as Parts, seen);
  expect(seen.size).toBeGreaterThan(1);
});

it.each(files.slice(1).map((file) => [file.name, file]))("reads %s as embedded", (_, file) => {
  const embedded = embedFileDesc(file.proto);
  if (embedded.bootable) throw new Error(`${file.name} is embedded in another way`);
  const read = embeddedProto(embedded.base64(), file.dependencies);
  expect(equals(wellKnown.FileDescriptorProtoSchema, read, file.proto)).toBe(true);
});
