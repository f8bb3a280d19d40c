/**
 * A file of descriptors that makes the parts of each message, enumeration and service at their first use, from the text
 * of `table.ts`. The bundle calls it in place of the library's `fileDesc`, which decodes and links everything at once.
 * What it makes equals what the library makes: `test/unit/bin/descriptors.test.ts` compares all of them.
 */
import type {
  DescEnum,
  DescEnumValue,
  DescExtension,
  DescField,
  DescFile,
  DescMessage,
  DescMethod,
  DescOneof,
  DescService,
} from "@bufbuild/protobuf";
import type { FileDescriptorProto } from "@bufbuild/protobuf/wkt";
import { extensionOf, Field, named, Oneof } from "./lazy-fields.ts";
import type { EnumRow, FileRow, MessageRow, NamesRow, ServiceRow } from "./rows.ts";

/** `proto` reads the file in the protocol's own words; called at the first use of any `proto`. */
export const lazyFile = (table: string, proto: () => FileDescriptorProto, dependencies: DescFile[] = []): DescFile =>
  new LazyFile(table, proto, dependencies);

export class LazyFile implements DescFile {
  readonly kind = "file";
  readonly name: string;
  readonly edition: DescFile["edition"];
  readonly deprecated: boolean;
  readonly dependencies: DescFile[];
  readonly enums: DescEnum[];
  readonly messages: DescMessage[];
  readonly services: DescService[];
  readonly extensions: DescExtension[];
  readonly #types = new Map<string, LazyMessage | LazyEnum>();
  readonly #readProto: () => FileDescriptorProto;
  #proto: FileDescriptorProto | undefined;

  constructor(table: string, proto: () => FileDescriptorProto, dependencies: DescFile[]) {
    const lines = table.split("\n").values();
    const line = () => lines.next().value ?? "";
    const row = JSON.parse(line()) as FileRow;
    this.name = row.name;
    this.edition = row.edition as DescFile["edition"];
    this.deprecated = row.deprecated === true;
    this.dependencies = dependencies;
    this.#readProto = proto;
    const prefix = row.package === "" ? "" : `${row.package}.`;
    const source: Source = { file: this, line, add: (type) => this.#add(type) };
    this.enums = row.enums.map((name) => new LazyEnum(source, name, prefix, undefined));
    this.messages = row.messages.map((names) => new LazyMessage(source, names, prefix, undefined));
    this.services = row.services.map((name) => new LazyService(source, name, prefix));
    this.extensions = row.extensions.map((one) => extensionOf(one, this, prefix));
  }

  get proto(): FileDescriptorProto {
    this.#proto ??= this.#readProto();
    return this.#proto;
  }

  #add(type: LazyMessage | LazyEnum): void {
    this.#types.set(type.typeName, type);
  }

  /** A type of this file, or of one that it imports. */
  find(typeName: string): LazyMessage | LazyEnum | undefined {
    const own = this.#types.get(typeName);
    if (own !== undefined) return own;
    for (const file of this.dependencies) {
      const found = file instanceof LazyFile ? file.find(typeName) : undefined;
      if (found !== undefined) return found;
    }
    return;
  }

  message(typeName: string): LazyMessage {
    const found = this.find(typeName);
    if (!(found instanceof LazyMessage)) throw new Error(`${this.name} imports no message ${typeName}`);
    return found;
  }

  enum(typeName: string): LazyEnum {
    const found = this.find(typeName);
    if (!(found instanceof LazyEnum)) throw new Error(`${this.name} imports no enumeration ${typeName}`);
    return found;
  }

  toString(): string {
    return `file ${this.name}.proto`;
  }
}

/** What the descriptors of a file are made from, in the order of its lines. */
interface Source {
  readonly file: LazyFile;
  line(): string;
  add(type: LazyMessage | LazyEnum): void;
}

type MessageParts = Pick<DescMessage, "fields" | "field" | "oneofs" | "members" | "deprecated">;

export class LazyMessage implements DescMessage {
  readonly kind = "message";
  readonly name: string;
  readonly typeName: string;
  readonly file: LazyFile;
  readonly parent: LazyMessage | undefined;
  readonly nestedEnums: DescEnum[];
  readonly nestedMessages: DescMessage[];
  readonly nestedExtensions: DescExtension[] = [];
  readonly #line: string;
  #parts: MessageParts | undefined;

  constructor(source: Source, [name, enums, messages]: NamesRow, prefix: string, parent: LazyMessage | undefined) {
    this.name = name;
    this.typeName = prefix + name;
    this.file = source.file;
    this.parent = parent;
    this.#line = source.line();
    source.add(this);
    const inner = `${this.typeName}.`;
    this.nestedEnums = (enums ?? []).map((one) => new LazyEnum(source, one, inner, this));
    this.nestedMessages = (messages ?? []).map((one) => new LazyMessage(source, one, inner, this));
  }

  get #made(): MessageParts {
    this.#parts ??= messageParts(JSON.parse(this.#line) as MessageRow, this);
    return this.#parts;
  }

  get fields(): DescField[] {
    return this.#made.fields;
  }

  get field(): Record<string, DescField> {
    return this.#made.field;
  }

  get oneofs(): DescOneof[] {
    return this.#made.oneofs;
  }

  get members(): (DescField | DescOneof)[] {
    return this.#made.members;
  }

  get deprecated(): boolean {
    return this.#made.deprecated;
  }

  get proto(): DescMessage["proto"] {
    return named(this.parent?.proto.nestedType ?? this.file.proto.messageType, this.name);
  }

  toString(): string {
    return `message ${this.typeName}`;
  }
}

function messageParts(
  { fields: rows, oneofs: names = [], deprecated }: MessageRow,
  message: LazyMessage,
): MessageParts {
  const fields: DescField[] = [];
  const field: Record<string, DescField> = {};
  const oneofs = names.map(([name, localName]) => new Oneof(message, name, localName));
  const members = new Set<DescField | DescOneof>();
  for (const row of rows) {
    const oneof = oneofs[row[4]?.oneof ?? -1];
    const made = new Field(row, message.file, { parent: message, oneof }) as DescField;
    fields.push(made);
    field[made.localName] = made;
    members.add(oneof ?? made);
    oneof?.fields.push(made);
  }
  return { fields, field, oneofs, members: [...members], deprecated: deprecated === true };
}

type EnumParts = Pick<DescEnum, "values" | "value" | "open" | "sharedPrefix" | "deprecated">;

class LazyEnum implements DescEnum {
  readonly kind = "enum";
  readonly name: string;
  readonly typeName: string;
  readonly file: LazyFile;
  readonly parent: LazyMessage | undefined;
  readonly #line: string;
  #parts: EnumParts | undefined;

  constructor(source: Source, name: string, prefix: string, parent: LazyMessage | undefined) {
    this.name = name;
    this.typeName = prefix + name;
    this.file = source.file;
    this.parent = parent;
    this.#line = source.line();
    source.add(this);
  }

  get #made(): EnumParts {
    this.#parts ??= enumParts(JSON.parse(this.#line) as EnumRow, this);
    return this.#parts;
  }

  get values(): DescEnumValue[] {
    return this.#made.values;
  }

  get value(): Record<number, DescEnumValue> {
    return this.#made.value;
  }

  get open(): boolean {
    return this.#made.open;
  }

  get sharedPrefix(): string | undefined {
    return this.#made.sharedPrefix;
  }

  get deprecated(): boolean {
    return this.#made.deprecated;
  }

  get proto(): DescEnum["proto"] {
    return named(this.parent?.proto.enumType ?? this.file.proto.enumType, this.name);
  }

  toString(): string {
    return `enum ${this.typeName}`;
  }
}

function enumParts({ values: rows, sharedPrefix, isClosed, deprecated }: EnumRow, parent: LazyEnum): EnumParts {
  const values = rows.map(
    ([name, localName, number, { jsonName = name, deprecated: isOld } = {}]) =>
      new EnumValue(parent, { name, localName, number, jsonName, deprecated: isOld === true }),
  );
  const value: Record<number, DescEnumValue> = {};
  // The first of two names for a number counts.
  for (const one of values) value[one.number] ??= one;
  return { values, value, open: isClosed !== true, sharedPrefix, deprecated: deprecated === true };
}

type EnumValueFacts = Pick<DescEnumValue, "name" | "localName" | "number" | "jsonName" | "deprecated">;

class EnumValue implements DescEnumValue {
  readonly kind = "enum_value";
  readonly parent: LazyEnum;
  readonly name: string;
  readonly localName: string;
  readonly number: number;
  readonly jsonName: string;
  readonly deprecated: boolean;

  constructor(parent: LazyEnum, { name, localName, number, jsonName, deprecated }: EnumValueFacts) {
    this.parent = parent;
    this.name = name;
    this.localName = localName;
    this.number = number;
    this.jsonName = jsonName;
    this.deprecated = deprecated;
  }

  get proto(): DescEnumValue["proto"] {
    return named(this.parent.proto.value, this.name);
  }

  toString(): string {
    return `enum value ${this.parent.typeName}.${this.name}`;
  }
}

type ServiceParts = Pick<DescService, "methods" | "method" | "deprecated">;

class LazyService implements DescService {
  readonly kind = "service";
  readonly name: string;
  readonly typeName: string;
  readonly file: LazyFile;
  readonly #line: string;
  #parts: ServiceParts | undefined;

  constructor(source: Source, name: string, prefix: string) {
    this.name = name;
    this.typeName = prefix + name;
    this.file = source.file;
    this.#line = source.line();
  }

  get #made(): ServiceParts {
    this.#parts ??= serviceParts(JSON.parse(this.#line) as ServiceRow, this);
    return this.#parts;
  }

  get methods(): DescMethod[] {
    return this.#made.methods;
  }

  get method(): Record<string, DescMethod> {
    return this.#made.method;
  }

  get deprecated(): boolean {
    return this.#made.deprecated;
  }

  get proto(): DescService["proto"] {
    return named(this.file.proto.service, this.name);
  }

  toString(): string {
    return `service ${this.typeName}`;
  }
}

function serviceParts({ methods: rows, deprecated }: ServiceRow, parent: LazyService): ServiceParts {
  const methods = rows.map((row) => new Method(parent, row) as DescMethod);
  const method = Object.fromEntries(methods.map((one) => [one.localName, one]));
  return { methods, method, deprecated: deprecated === true };
}

class Method {
  readonly kind = "rpc";
  readonly parent: LazyService;
  readonly name: string;
  readonly localName: string;
  readonly methodKind: string;
  readonly input: DescMessage;
  readonly output: DescMessage;
  readonly idempotency: number;
  readonly deprecated: boolean;

  constructor(parent: LazyService, [name, localName, kind, input, output, rest = {}]: ServiceRow["methods"][number]) {
    this.parent = parent;
    this.name = name;
    this.localName = localName;
    this.methodKind = kind;
    this.input = parent.file.message(input);
    this.output = parent.file.message(output);
    this.idempotency = rest.idempotency ?? 0;
    this.deprecated = rest.deprecated === true;
  }

  get proto(): DescMethod["proto"] {
    return named(this.parent.proto.method, this.name);
  }

  toString(): string {
    return `rpc ${this.parent.typeName}.${this.name}`;
  }
}
