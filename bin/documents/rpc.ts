import { spawnSync } from "node:child_process";
import { basename } from "node:path";
import {
  createFileRegistry,
  type DescEnum,
  type DescField,
  type DescFile,
  type DescMessage,
  type DescMethod,
  type DescService,
  fromBinary,
  getOption,
  hasOption,
} from "@bufbuild/protobuf";
import { FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import { scopeName } from "../../src/core/scopes.ts";
import { Scope, scope as scopeOption } from "../../src/gen/latchkey/v1/access_pb.ts";
import { root } from "../steps.ts";
import { anchorOf, code, generatedNote, page, table } from "./markdown.ts";

/** Field numbers in descriptor.proto, by which comments are found. */
const [messageField, enumField, serviceField] = [4, 5, 6];
const [messageFieldField, nestedMessageField, nestedEnumField, methodField, valueField] = [2, 3, 4, 2, 2];

/**
 * The pages of docs/rpc: an index, and one page for each proto file with its services, messages and enums, and the
 * comments of these.
 */
export function rpcPages(): ReadonlyMap<string, string> {
  const files = protoFiles().sort(byName);
  const comments = new Map(files.map((file) => [file.name, commentsOf(file)]));
  const textOf = (file: DescFile, path: readonly number[]) => comments.get(file.name)?.get(path.join()) ?? "";
  return new Map([
    ["README.md", indexPage(files, textOf)],
    ...files.map((file) => [pageName(file), filePage(file, textOf)] as const),
  ]);
}

function indexPage(files: readonly DescFile[], textOf: TextOf): string {
  const services = files.flatMap((file) => file.services).sort(byName);
  return page(
    generatedNote,
    "# RPC API",
    "This page lists every service of the control plane. The linked pages list the methods and messages.",
    `The control listener (\`127.0.0.1:3004\`) speaks gRPC, gRPC-Web and Connect. Reflection and \`grpc.health.v1\` are on. The definitions are in \`proto/latchkey/v1\`.

\`\`\`sh
curl -s http://127.0.0.1:3004/latchkey.v1.EnvironmentService/ListEnvironments \\
  -H "Authorization: Bearer $(cat .latchkey/admin-key)" -H "Content-Type: application/json" -d '{}'
\`\`\`

- Send a key in \`authorization: Bearer <key>\`. A control key may do everything; the key of an environment needs the scope in the table, and gives access to its own environment only.
- Field names in JSON are written \`connectionId\` or \`connection_id\`. Unknown fields are refused.
- Lists take \`page_size\` and \`page_token\`, and answer \`next_page_token\`; empty: the last page.
- Changes take \`expected_revision\`; 0: any. A different revision fails with \`conflict\`.
- Errors are explained in [errors](../errors.md).`,
    table(
      ["Service", "What it does", "Methods"],
      services.map((one) => [
        `[${one.name}](${pageName(one.file)}#${anchorOf(one.name)})`,
        firstSentence(textOf(one.file, [serviceField, one.file.services.indexOf(one)])),
        one.methods.map(({ name }) => code(name)).join(", "),
      ]),
    ),
    `One page for each proto file: ${files.map((file) => `[${titleOf(file)}](${pageName(file)})`).join(", ")}.`,
    "Next: [the JSON API](../api.md), [the command line](../cli.md).",
  );
}

function filePage(file: DescFile, textOf: TextOf): string {
  const messages = file.messages.map((desc, i) => ({ desc, path: [messageField, i] })).sort(byDescName);
  const enums = file.enums.map((desc, i) => ({ desc, path: [enumField, i] })).sort(byDescName);
  return page(
    generatedNote,
    `# RPC: ${titleOf(file)}`,
    `This page lists what \`proto/${file.name}.proto\` defines. Keys, paging and errors: [RPC API](README.md).`,
    ...file.services.map((one) => serviceSection(one, textOf)),
    messages.length === 0 ? "" : "## Messages",
    ...messages.flatMap(({ desc, path }) => messageSections(desc, path, textOf)),
    enums.length === 0 ? "" : "## Enums",
    ...enums.map(({ desc, path }) => enumSection(desc, path, textOf)),
  );
}

const pageName = ({ name }: DescFile): string => `${basename(name).replaceAll("_", "-")}.md`;
const titleOf = ({ name }: DescFile): string => basename(name).replaceAll("_", " ");

type TextOf = (file: DescFile, path: readonly number[]) => string;

const byName = (a: { readonly name: string }, b: { readonly name: string }): number => (a.name < b.name ? -1 : 1);
const byDescName = (
  a: { readonly desc: DescMessage | DescEnum },
  b: { readonly desc: DescMessage | DescEnum },
): number => byName(a.desc, b.desc);
const firstSentence = (text: string): string => /^.*?\.(?=\s|$)/s.exec(text)?.[0] ?? text;
const ours = "latchkey.v1";

function protoFiles(): DescFile[] {
  const { status, stdout, stderr } = spawnSync(`${root}/node_modules/.bin/buf`, ["build", "-o", "-"], {
    cwd: root,
    maxBuffer: 2 ** 26,
  });
  if (status !== 0) throw new Error(`buf build failed: ${stderr}`);
  const registry = createFileRegistry(fromBinary(FileDescriptorSetSchema, stdout));
  return [...registry.files].filter(({ proto }) => proto.package === ours);
}

/** The leading comments of a file, by the path of what they describe. */
const commentsOf = ({ proto }: DescFile): ReadonlyMap<string, string> =>
  new Map(
    (proto.sourceCodeInfo?.location ?? []).flatMap(({ path, leadingComments }) => {
      const text = leadingComments.replace(/\s*\n\s*/g, " ").trim();
      return text === "" ? [] : [[path.join(), text]];
    }),
  );

function serviceSection(service: DescService, textOf: TextOf): string {
  const at = [serviceField, service.file.services.indexOf(service)];
  return page(
    `## ${service.name}`,
    textOf(service.file, at),
    table(
      ["Method", "Scope", "What it does"],
      service.methods.map((method, i) => [
        `${code(method.name)}<br>${linkTo(method.input, service.file)} → ${isServerStream(method) ? "stream of " : ""}${linkTo(method.output, service.file)}`,
        scopeTextOf(method),
        textOf(service.file, [...at, methodField, i]),
      ]),
    ),
  ).trimEnd();
}

function scopeTextOf(method: DescMethod): string {
  if (!hasOption(method, scopeOption)) return "none";
  const wanted = getOption(method, scopeOption);
  return wanted === Scope.UNSPECIFIED ? "any key" : code(scopeName(wanted as Scope));
}

const isServerStream = ({ methodKind }: DescMethod): boolean =>
  methodKind === "server_streaming" || methodKind === "bidi_streaming";

function messageSections(desc: DescMessage, path: readonly number[], textOf: TextOf): string[] {
  const fields = desc.fields.map((field) => {
    // Fields of a message are declared in the order of their descriptors.
    const index = desc.proto.field.findIndex(({ name }) => name === field.name);
    return [code(field.name), typeOf(field), textOf(desc.file, [...path, messageFieldField, index])];
  });
  const own = page(
    `### ${shortName(desc)}`,
    textOf(desc.file, path),
    fields.length === 0 ? "No fields." : table(["Field", "Type", "Meaning"], fields),
  ).trimEnd();
  return [
    own,
    ...desc.nestedMessages
      .filter(({ proto }) => proto.options?.mapEntry !== true)
      .flatMap((one) => {
        const index = desc.proto.nestedType.findIndex(({ name }) => name === one.name);
        return messageSections(one, [...path, nestedMessageField, index], textOf);
      }),
    ...desc.nestedEnums.map((one, i) => enumSection(one, [...path, nestedEnumField, i], textOf)),
  ];
}

const enumSection = (desc: DescEnum, path: readonly number[], textOf: TextOf): string =>
  page(
    `### ${shortName(desc)}`,
    textOf(desc.file, path),
    table(
      ["Value", "Number", "Meaning"],
      desc.values.map((one, i) => [code(one.name), String(one.number), textOf(desc.file, [...path, valueField, i])]),
    ),
  ).trimEnd();

const shortName = ({ typeName }: DescMessage | DescEnum): string => typeName.replace(`${ours}.`, "");

function linkTo(desc: DescMessage | DescEnum, from: DescFile): string {
  const name = shortName(desc);
  if (desc.file.proto.package !== ours) return code(desc.typeName);
  return `[${name}](${desc.file === from ? "" : pageName(desc.file)}#${anchorOf(name)})`;
}

const scalars =
  "0 double float int64 uint64 int32 fixed64 fixed32 bool string group message bytes uint32 enum sfixed32 sfixed64 sint32 sint64".split(
    " ",
  );

function typeOf(field: DescField): string {
  switch (field.fieldKind) {
    case "scalar":
      return scalars[field.scalar] ?? "";
    case "message":
      return linkTo(field.message, field.parent.file);
    case "enum":
      return linkTo(field.enum, field.parent.file);
    case "list":
      return `list of ${field.listKind === "scalar" ? scalars[field.scalar] : linkTo(field.listKind === "enum" ? field.enum : field.message, field.parent.file)}`;
    case "map": {
      const value =
        field.mapKind === "scalar"
          ? scalars[field.scalar]
          : linkTo(field.mapKind === "enum" ? field.enum : field.message, field.parent.file);
      return `map of ${scalars[field.mapKey]} to ${value}`;
    }
  }
}
