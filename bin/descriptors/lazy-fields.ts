/** Fields, oneofs and extensions of a lazy file. */
import type { DescEnum, DescExtension, DescField, DescMessage, DescOneof } from "@bufbuild/protobuf";
import type { LazyFile, LazyMessage } from "./lazy-file.ts";
import { type ExtensionRow, type FieldRow, fieldForms, usualPresence } from "./rows.ts";

export class Oneof implements DescOneof {
  readonly kind = "oneof";
  readonly deprecated = false;
  readonly fields: DescField[] = [];
  readonly parent: LazyMessage;
  readonly name: string;
  readonly localName: string;

  constructor(parent: LazyMessage, name: string, localName: string) {
    this.parent = parent;
    this.name = name;
    this.localName = localName;
  }

  get proto(): DescOneof["proto"] {
    return named(this.parent.proto.oneofDecl, this.name);
  }

  toString(): string {
    return `oneof ${this.parent.typeName}.${this.name}`;
  }
}

/** What fields and extensions have. The library copies its own properties, so all but `proto` are such. */
class FieldBase {
  readonly deprecated: boolean;
  readonly name: string;
  readonly number: number;
  readonly fieldKind: string;
  readonly scalar: number | undefined;
  readonly message: DescMessage | undefined;
  readonly enum: DescEnum | undefined;
  readonly presence: number;
  readonly utf8Validation: boolean;
  readonly listKind: string | undefined;
  readonly mapKind: string | undefined;
  readonly mapKey: number | undefined;
  readonly delimitedEncoding: boolean | undefined;
  readonly packed: boolean | undefined;
  readonly longAsString: boolean;
  readonly getDefaultValue: (() => unknown) | undefined;

  constructor([name, number, form, type, rest = {}]: FieldRow, file: LazyFile) {
    const [container, inner = container] = (fieldForms[form] ?? "").split(/ of | to /);
    const holdsMessage = inner === "message";
    const isSingle = container === inner;
    this.deprecated = rest.deprecated === true;
    this.name = name;
    this.number = number;
    this.fieldKind = container ?? "";
    this.scalar = inner === "scalar" ? Number(type) : undefined;
    this.message = holdsMessage ? file.message(String(type)) : undefined;
    this.enum = inner === "enum" ? file.enum(String(type)) : undefined;
    this.presence = rest.presence ?? usualPresence(form);
    this.utf8Validation = rest.isUnchecked !== true;
    this.listKind = container === "list" ? inner : undefined;
    this.mapKind = container === "map" ? inner : undefined;
    this.mapKey = rest.mapKey;
    this.delimitedEncoding = holdsMessage || container === "map" ? rest.isDelimited === true : undefined;
    this.packed = container === "list" ? rest.isPacked === true : undefined;
    this.longAsString = rest.isLongText === true;
    this.getDefaultValue = isSingle ? () => rest.default : undefined;
  }
}

export class Field extends FieldBase {
  readonly kind = "field";
  readonly parent: LazyMessage;
  readonly oneof: DescOneof | undefined;
  readonly localName: string;
  readonly jsonName: string;

  constructor(row: FieldRow, file: LazyFile, at: Pick<Field, "parent" | "oneof">) {
    super(row, file);
    const { localName = this.name, jsonName = localName } = row[4] ?? {};
    this.parent = at.parent;
    this.oneof = at.oneof;
    this.localName = localName;
    this.jsonName = jsonName;
  }

  get proto(): DescField["proto"] {
    return named(this.parent.proto.field, this.name);
  }

  override toString(): string {
    return `field ${this.parent.typeName}.${this.name}`;
  }
}

export const extensionOf = ({ extendee, field }: ExtensionRow, file: LazyFile, prefix: string): DescExtension =>
  new Extension(field, file, { prefix, extendee }) as unknown as DescExtension;

class Extension extends FieldBase {
  readonly kind = "extension";
  readonly file: LazyFile;
  readonly parent = undefined;
  readonly oneof = undefined;
  readonly typeName: string;
  readonly jsonName: string;
  readonly extendee: DescMessage;

  constructor(row: FieldRow, file: LazyFile, { prefix, extendee }: { readonly prefix: string; extendee: string }) {
    super(row, file);
    this.file = file;
    this.typeName = prefix + this.name;
    this.jsonName = `[${this.typeName}]`;
    this.extendee = file.message(extendee);
  }

  get proto(): DescExtension["proto"] {
    return named(this.file.proto.extension, this.name);
  }

  override toString(): string {
    return `extension ${this.typeName}`;
  }
}

/** A part in the protocol's own words, by its name. */
export function named<T extends { readonly name: string }>(all: readonly T[], name: string): T {
  const found = all.find((one) => one.name === name);
  if (found === undefined) throw new Error(`the file of descriptors has no ${name}`);
  return found;
}
