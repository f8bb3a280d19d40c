/** Writes the descriptors of a file as text, at build time: see `rows.ts`. */
import type { DescEnum, DescExtension, DescField, DescFile, DescMessage, DescService } from "@bufbuild/protobuf";
import {
  type EnumRow,
  type ExtensionRow,
  type FieldRow,
  type FileRow,
  fieldForms,
  type MessageRow,
  type NamesRow,
  type ServiceRow,
  usualPresence,
} from "./rows.ts";

export function tableOf(file: DescFile): string {
  const row: FileRow = {
    name: file.name,
    package: file.proto.package,
    edition: file.edition,
    ...deprecation(file),
    enums: file.enums.map(({ name }) => name),
    messages: file.messages.map(namesOf),
    services: file.services.map(({ name }) => name),
    extensions: file.extensions.map(extensionRow),
  };
  return [row, ...file.enums.map(enumRow), ...file.messages.flatMap(messageRows), ...file.services.map(serviceRow)]
    .map((line) => JSON.stringify(line))
    .join("\n");
}

const deprecation = ({ deprecated }: { readonly deprecated: boolean }) => (deprecated ? { deprecated } : {});

const namesOf = ({ name, nestedEnums, nestedMessages }: DescMessage): NamesRow =>
  nestedEnums.length + nestedMessages.length === 0
    ? [name]
    : [name, nestedEnums.map((one) => one.name), nestedMessages.map(namesOf)];

/** The message, then what is declared in it. */
function messageRows(message: DescMessage): (MessageRow | EnumRow)[] {
  if (message.nestedExtensions.length > 0)
    throw new Error(`${message.typeName} declares extensions, which lazy-file.ts has no place for`);
  const row: MessageRow = {
    fields: message.fields.map((field) => fieldRow(field, message)),
    ...(message.oneofs.length === 0 ? {} : { oneofs: message.oneofs.map(({ name, localName }) => [name, localName]) }),
    ...deprecation(message),
  };
  return [row, ...message.nestedEnums.map(enumRow), ...message.nestedMessages.flatMap(messageRows)];
}

function fieldRow(field: DescField | DescExtension, message?: DescMessage): FieldRow {
  const localName = field.kind === "field" ? field.localName : field.jsonName;
  const form = formOf(field);
  const value = "getDefaultValue" in field ? field.getDefaultValue?.() : undefined;
  if (value !== undefined && !["string", "number", "boolean"].includes(typeof value))
    throw new Error(`${field.toString()} has a default that lazy-file.ts cannot make`);
  const rest: FieldRow[4] = {
    ...(localName === field.name ? {} : { localName }),
    ...(field.jsonName === localName ? {} : { jsonName: field.jsonName }),
    ...(field.presence === usualPresence(form) ? {} : { presence: field.presence }),
    ...(field.oneof === undefined ? {} : { oneof: message?.oneofs.indexOf(field.oneof) ?? -1 }),
    ...(field.fieldKind === "map" ? { mapKey: field.mapKey } : {}),
    ...(value === undefined ? {} : { default: value as string | number | boolean }),
    ...(field.utf8Validation ? {} : { isUnchecked: true }),
    ...(field.fieldKind === "list" && field.packed ? { isPacked: true } : {}),
    ...("delimitedEncoding" in field && field.delimitedEncoding === true ? { isDelimited: true } : {}),
    ...("longAsString" in field && field.longAsString ? { isLongText: true } : {}),
    ...deprecation(field),
  };
  const type = field.message?.typeName ?? field.enum?.typeName ?? field.scalar ?? 0;
  const row = [field.name, field.number, form, type] as const;
  return Object.keys(rest).length === 0 ? row : [...row, rest];
}

function formOf(field: DescField | DescExtension): number {
  const form: (typeof fieldForms)[number] =
    field.fieldKind === "list"
      ? `list of ${field.listKind}`
      : field.fieldKind === "map"
        ? `map to ${field.mapKind}`
        : field.fieldKind;
  return fieldForms.indexOf(form);
}

const extensionRow = (extension: DescExtension): ExtensionRow => ({
  extendee: extension.extendee.typeName,
  field: fieldRow(extension),
});

const enumRow = (description: DescEnum): EnumRow => ({
  values: description.values.map((value) => {
    const { name, localName, number, jsonName } = value;
    const rest = { ...(jsonName === name ? {} : { jsonName }), ...deprecation(value) };
    return Object.keys(rest).length === 0 ? [name, localName, number] : [name, localName, number, rest];
  }),
  ...(description.sharedPrefix === undefined ? {} : { sharedPrefix: description.sharedPrefix }),
  ...(description.open ? {} : { isClosed: true }),
  ...deprecation(description),
});

const serviceRow = (service: DescService): ServiceRow => ({
  methods: service.methods.map((method) => {
    const { name, localName, methodKind, input, output, idempotency } = method;
    const row = [name, localName, methodKind, input.typeName, output.typeName] as const;
    const rest = { ...(idempotency === 0 ? {} : { idempotency: Number(idempotency) }), ...deprecation(method) };
    return Object.keys(rest).length === 0 ? row : [...row, rest];
  }),
  ...deprecation(service),
});
